package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
)

// writes is a write for which only the owner of the schedules may ask.
func writes(ctx context.Context, s *Store) error {
	return s.PutSchedule(ctx, timetable.Schedule{Name: "daily"}, nil)
}

// TestAHostAloneAndHostsThatShareExcludeEachOther in both orders, and two processes with one name as well.
func TestAHostAloneAndHostsThatShareExcludeEachOther(t *testing.T) {
	server := postgrestest.Shared(t)
	for name, url := range map[string]func(string) string{"direct": server.URL, "pooled": server.Pooler(t)} {
		t.Run(name, func(t *testing.T) {
			ctx, key := t.Context(), store.ChannelOwner("irc")
			database := server.Database(t)
			at := Address{url(database), "DB"}
			alone := func() (*Store, error) { return Open(ctx, at) }
			host := func(name string) func() (*Store, error) {
				return func() (*Store, error) { return Join(ctx, at, name) }
			}
			closed := map[*Store]bool{}
			shut := func(s *Store) {
				if !closed[s] {
					closed[s] = true
					s.Close()
				}
			}
			opened := func(open func() (*Store, error), shared bool) *Store {
				t.Helper()
				s, err := open()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { shut(s) })
				if s.Shared() != shared {
					t.Fatalf("it is shared: %t", s.Shared())
				}
				return s
			}
			refused := func(open func() (*Store, error), next string) {
				t.Helper()
				s, err := open()
				if err == nil {
					s.Close()
				}
				if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), next) {
					t.Fatalf("error is %v, want %q", err, next)
				}
			}
			owns := func(s *Store, want bool) {
				t.Helper()
				err := writes(ctx, s)
				if want && err != nil || !want && !errors.Is(err, store.ErrFenced) {
					t.Fatalf("it writes, and the error is %v", err)
				}
			}
			one := opened(alone, false)
			owns(one, true)
			refused(alone, "a name each, in [cluster] host")
			refused(host("a"), "give it a name in [cluster] host")
			shut(one)

			a, b := opened(host("a"), true), opened(host("b"), true)
			for _, s := range []*Store{a, b} {
				if _, err := s.Renew(ctx, store.Lease{Term: time.Hour}); err != nil {
					t.Fatal(err)
				}
			}
			refused(host("a"), "give this one another name")
			refused(alone, "share the database")
			for _, k := range []store.OwnerKey{store.ScheduleOwner, key} {
				if _, err := a.Claim(ctx, k); err != nil {
					t.Fatal(err)
				}
			}
			owns(a, true)
			owns(b, false)
			before, err := a.Owner(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			shut(a)
			again := opened(host("a"), true) // the process of that name has ended
			owns(again, true)
			shut(again)
			shut(b)
			refused(alone, "(a, b)") // their leases have not expired
			server.Exec(t, database, "UPDATE hosts SET expires = 1 WHERE expires > 1")

			one = opened(alone, false)
			owns(one, true) // what was a's
			if o, err := one.Owner(ctx, key); err != nil || o.Host != store.DefaultHost || o.Epoch <= before.Epoch {
				t.Errorf("the owner is %+v, %v, and was %+v", o, err, before)
			}
			shut(one)
			owns(opened(host("b"), true), false) // it has claimed nothing
		})
	}
}

// TestAHostThatLostItsDatabaseToOthersWritesNothing: its connection broke, and before it had another one, hosts that share the database
// have come; or the other way round.
func TestAHostThatLostItsDatabaseToOthersWritesNothing(t *testing.T) {
	server := postgrestest.Shared(t)
	for _, c := range []struct {
		name          string
		first, second func(context.Context, Address) (*Store, error)
	}{
		{"alone", Open, joinB},
		{"sharing", joinB, Open},
	} {
		t.Run(c.name, func(t *testing.T) {
			database := server.Database(t)
			at := Address{server.URL(database), "DB"}
			first, err := c.first(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			if _, err := first.Take(t.Context(), store.ScheduleOwner); err != nil {
				t.Fatal(err)
			}
			server.Exec(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'flynn' AND datname = '"+database+"'")
			second, err := c.second(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			if err := writes(t.Context(), first); !errors.Is(err, store.ErrFenced) {
				t.Errorf("error is %v", err)
			}
			second.Close()
			if err := writes(t.Context(), first); !errors.Is(err, store.ErrFenced) {
				t.Errorf("later the error is %v", err)
			}
		})
	}
}

func joinB(ctx context.Context, at Address) (*Store, error) { return Join(ctx, at, "b") }

// TestAHostWhoseConnectionEndedIsDeadBeforeItsLeaseIsOver, once it cannot act any more, unless it has renewed meanwhile. Its lease
// still protects what goes on without asking.
func TestAHostWhoseConnectionEndedIsDeadBeforeItsLeaseIsOver(t *testing.T) {
	server := postgrestest.Shared(t)
	ctx, key := t.Context(), store.ScheduleOwner
	database := server.Database(t)
	at := Address{server.URL(database), "DB"}
	lease := store.Lease{Term: time.Hour, Reach: 300 * time.Millisecond}
	joined := func(name string) *Store {
		t.Helper()
		s, err := Join(ctx, at, name)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	renew := func(s *Store) store.Renewal {
		t.Helper()
		r, err := s.Renew(ctx, lease)
		if err != nil || !r.Watched {
			t.Fatalf("renewed: %+v, %v", r, err)
		}
		return r
	}
	a, b := joined("a"), joined("b")
	defer b.Close()
	renew(a)
	renew(b)
	if _, err := a.Claim(ctx, key); err != nil {
		t.Fatal(err)
	}
	looks := func(want error) (gone time.Duration) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			told, err := b.Signaled(ctx)
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.Claim(ctx, key)
			if err == nil && !told { // it may have died in between
				if told, err := b.Signaled(ctx); err != nil || !told {
					t.Errorf("it was claimed, and nothing told that its host is dead: %v", err)
				}
			}
			if err == nil || time.Since(began) > 3*lease.Reach {
				if !errors.Is(err, want) {
					t.Fatalf("error is %v, want %v", err, want)
				}
				return time.Since(began)
			}
			if !errors.Is(err, store.ErrOwned) {
				t.Fatal(err)
			}
		}
	}
	looks(store.ErrOwned) // it is there
	server.Exec(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'flynn' AND datname = '"+database+"'")
	if _, err := b.Signaled(ctx); err != nil { // b has connections again
		t.Fatal(err)
	}
	renew(a) // and so has a
	looks(store.ErrOwned)
	a.Close() // as if it was killed: it does not leave
	if took := looks(nil); took < lease.Reach {
		t.Errorf("it was dead after %s", took)
	}
	if o, err := b.Claim(ctx, key); err != nil || o.Rest < lease.Term-time.Minute || o.Rest > lease.Term {
		t.Errorf("the owner is %+v, %v", o, err)
	}
	if r := renew(b); len(r.Alive) != 1 {
		t.Errorf("alive are %v", r.Alive)
	}
	a = joined("a")
	defer a.Close()
	renew(a)
	if r := renew(b); len(r.Alive) != 2 {
		t.Errorf("alive are %v", r.Alive)
	}
}
