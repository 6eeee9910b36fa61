package postgres

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
)

// TestAFailoverThatLosesCommits has a server take over that lacks what three hosts have committed last: a claim, and that the third was ever
// started. None of them goes on; those that start again have no keys until all that the three could believe has expired.
func TestAFailoverThatLosesCommits(t *testing.T) {
	const term = 3 * time.Second
	ctx := t.Context()
	primary := postgrestest.Start(t)
	database := primary.Database(t)
	open := map[*Store]bool{}
	t.Cleanup(func() {
		for s := range open {
			s.Close()
		}
	})
	join := func(at Address, host string) *Store {
		t.Helper()
		s, err := Join(ctx, at, host)
		if err != nil {
			t.Fatal(err)
		}
		open[s] = true
		return s
	}
	shut := func(s *Store) {
		t.Helper()
		delete(open, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	renew := func(s *Store) store.Renewal {
		t.Helper()
		r, err := s.Renew(ctx, store.Lease{Term: term, Reach: term / 8})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	claim := func(s *Store, key store.OwnerKey) {
		t.Helper()
		if _, err := s.Claim(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	free := store.ChannelOwner("free")
	before := Address{primary.URL(database), "FLYNN_STORE"}
	first := join(before, "a")
	renew(first)
	shut(first)
	standby := primary.Standby(t)
	at := Address{primary.Either(standby, database), "FLYNN_STORE"}
	a, b, c := join(at, "a"), join(at, "b"), join(at, "c")
	for _, s := range []*Store{a, b, c} {
		if w := renew(s).Wait; w > term {
			t.Fatalf("a host waits for %s before any failover", w)
		}
	}
	claim(b, free)
	claim(c, store.ScheduleOwner)
	if err := writes(ctx, c); err != nil {
		t.Fatal(err)
	}

	primary.Stop()
	if err := standby.Run(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for name, s := range map[string]*Store{"a": a, "b": b, "c": c} {
		for range 2 {
			_, err := s.Renew(ctx, store.Lease{Term: term})
			if !errors.Is(err, store.ErrFailedOver) || !errors.Is(err, store.ErrFenced) {
				t.Fatalf("%s goes on: %v", name, err)
			}
			want := "does not know that this host was started"
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q", name, err, want)
			}
		}
	}
	if err := writes(ctx, c); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("a host of before writes: %v", err)
	}
	for _, s := range []*Store{a, b, c} {
		shut(s)
	}

	next := join(at, "a")
	r := renew(next)
	if left := term - time.Since(began); r.Wait < left-time.Second {
		t.Errorf("the next host waits for %s, and others may believe in their leases for %s", r.Wait, left)
	}
	for _, key := range []store.OwnerKey{free, store.ScheduleOwner, store.ChannelOwner("new")} {
		if _, err := next.Claim(ctx, key); !errors.Is(err, store.ErrOwned) {
			t.Fatalf("%s is given away at once: %v", key, err)
		}
	}
	fresh := join(at, "d")
	if w := renew(fresh).Wait; w <= 0 {
		t.Error("a host that nobody knows acts at once")
	}
	for late := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		renew(next)
		_, err := next.Claim(ctx, free)
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrOwned) || time.Now().After(late) {
			t.Fatal(err)
		}
	}
	claim(fresh, store.ScheduleOwner)
	if err := writes(ctx, fresh); err != nil {
		t.Fatal(err)
	}
}

// TestAFailoverSaysWhatIsMissing; a crash of the server is none.
func TestAFailoverSaysWhatIsMissing(t *testing.T) {
	for want, loses := range map[string]bool{"of this host nothing is missing": false, "commits of this host are missing": true} {
		t.Run(want, func(t *testing.T) {
			ctx := t.Context()
			primary := postgrestest.Start(t)
			s, err := Join(ctx, Address{primary.URL(primary.Database(t)), "FLYNN_STORE"}, "a")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			renew := func() error {
				_, err := s.Renew(ctx, store.Lease{Term: time.Second})
				return err
			}
			primary.Stop()
			if err := primary.Run(); err != nil {
				t.Fatal(err)
			}
			if err := renew(); err != nil {
				t.Fatalf("after a crash of the server: %v", err)
			}
			standby := primary.Standby(t)
			if loses {
				if err := renew(); err != nil {
					t.Fatal(err)
				}
			}
			primary.Stop()
			s.db.pool.ConnConfig.Host = filepath.Dir(standby.Socket())
			if err := standby.Run(); err != nil {
				t.Fatal(err)
			}
			if err := renew(); !errors.Is(err, store.ErrFailedOver) || !strings.Contains(err.Error(), want) {
				t.Errorf("error is %v", err)
			}
		})
	}
}
