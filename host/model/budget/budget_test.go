package budget

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/model/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// book is a store with rows.
type book struct {
	rows []usage.Row
	err  error
}

func (b *book) SumUsage(_ context.Context, by usage.Key, f usage.Filter) ([]usage.Sum, error) {
	sums := map[string]usage.Sum{}
	for _, r := range b.rows {
		if r.At.Before(f.Since) || !r.At.Before(f.Until) {
			continue
		}
		key := map[usage.Key]string{usage.BySender: string(r.Sender), usage.ByAgent: r.Agent}[by]
		s := sums[key]
		s.Key, s.Input, s.Cost = key, s.Input+r.Input, s.Cost+r.Cost
		sums[key] = s
	}
	var out []usage.Sum
	for _, s := range sums {
		out = append(out, s)
	}
	return out, b.err
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func tokens(n int64) Amount { return Amount{Tokens: n} }

func TestLevels(t *testing.T) {
	book := &book{rows: []usage.Row{
		{At: noon.Add(-time.Hour), Sender: "ann", Agent: "helper", Input: 600, Cost: 6e8},
		{At: noon.AddDate(0, 0, -1), Sender: "ann", Agent: "helper", Input: 1e9, Cost: 1e18}, // yesterday
	}}
	for _, c := range []struct {
		name          string
		sender, agent string
		limits        Limits
		worst         Amount
		level         Level // that is full, or ""
		unit          Unit
	}{
		{"no limit", "ann", "helper", Limits{}, tokens(1e15), "", ""},
		{"the last token", "ann", "helper", Limits{Sender: tokens(1000)}, tokens(400), "", ""},
		{"one more", "ann", "helper", Limits{Sender: tokens(1000)}, tokens(401), Sender, Tokens},
		{"another sender", "bob", "helper", Limits{Sender: tokens(1000)}, tokens(1000), "", ""},
		{"the agent's", "bob", "helper", Limits{Agent: tokens(1000)}, tokens(401), Agent, Tokens},
		{"the host's", "bob", "coder", Limits{Host: tokens(1000)}, tokens(401), Host, Tokens},
		{"dollars", "ann", "coder", Limits{Sender: Amount{Cost: 1e9}}, Amount{1, 4e8 + 1}, Sender, Dollars},
		{"dollars that suffice", "ann", "coder", Limits{Sender: Amount{Cost: 1e9}}, Amount{1e9, 4e8}, "", ""},
		{"more than any day has", "bob", "coder", Limits{Host: tokens(10)}, tokens(11), Host, Tokens},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := New(Config{Store: book, Zone: time.UTC, Now: func() time.Time { return noon }})
			r, err := l.Reserve(t.Context(), Claim{Sender: c.sender, Agent: c.agent, Limits: c.limits, Worst: c.worst})
			var full *Exceeded
			if errors.As(err, &full) != (c.level != "") || (r != nil) != (c.level == "") {
				t.Fatalf("reservation %v, error %v", r, err)
			}
			if full != nil && (full.Level != c.level || full.Unit != c.unit || !full.Opens.Equal(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC))) {
				t.Errorf("the error is %v, want level %s and unit %s", full, c.level, c.unit)
			}
		})
	}
}

func TestRoomComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Store: &book{}, Zone: time.UTC})
		claim := Claim{Sender: "ann", Agent: "helper", Limits: Limits{Sender: tokens(100)}, Worst: tokens(60)}
		first, err := l.Reserve(t.Context(), claim)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 2)
		reserve := func(ctx context.Context) {
			r, err := l.Reserve(ctx, claim)
			if r != nil {
				defer r.Settle(tokens(60))
			}
			got <- err
		}
		go reserve(t.Context())
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go reserve(short)
		synctest.Wait()
		if len(got) != 0 {
			t.Fatal("room was given twice")
		}
		if err := <-got; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("who waits no longer gets %v", err)
		}
		first.Settle(tokens(40))
		first.Settle(tokens(40)) // has no effect
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if _, err = l.Reserve(t.Context(), Claim{Sender: "ann", Limits: claim.Limits, Worst: tokens(1)}); !errors.As(err, new(*Exceeded)) {
			t.Fatalf("after 100 of 100 the error is %v", err)
		}
	})
}

func TestDays(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	now := time.Date(2026, 10, 24, 21, 59, 0, 0, time.UTC) // 23:59, the day before summer time ends
	l := New(Config{Store: &book{}, Zone: berlin, Now: func() time.Time { return now }})
	claim := Claim{Sender: "ann", Limits: Limits{Sender: tokens(10)}, Worst: tokens(10)}
	old, err := l.Reserve(t.Context(), claim)
	if err != nil || old.Day() != "2026-10-24" {
		t.Fatalf("day %v, error %v", old, err)
	}
	now = now.Add(2 * time.Minute)
	r, err := l.Reserve(t.Context(), claim) // what is under way belongs to the day that it began on
	if err != nil || r.Day() != "2026-10-25" {
		t.Fatalf("day %v, error %v", r, err)
	}
	old.Settle(tokens(10))
	r.Settle(tokens(10))
	now = now.Add(24*time.Hour + 30*time.Minute) // still the same day, which has 25 hours
	var full *Exceeded
	if _, err := l.Reserve(t.Context(), claim); !errors.As(err, &full) || full.Opens.Format(time.RFC3339) != "2026-10-26T00:00:00+01:00" {
		t.Fatalf("in the 25th hour the error is %v", err)
	}
	now = full.Opens
	if _, err := l.Reserve(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
}

func TestUnreadableSumsLetNothingPass(t *testing.T) {
	b := &book{err: errors.New("disk is gone")}
	l := New(Config{Store: b})
	if _, err := l.Reserve(t.Context(), Claim{}); !errors.Is(err, b.err) {
		t.Fatalf("error is %v", err)
	}
	b.err = nil
	if _, err := l.Reserve(t.Context(), Claim{}); err != nil {
		t.Fatal(err)
	}
}

// TestRacers lets many claims run against each other: never is more used and held together than there is.
func TestRacers(t *testing.T) {
	l := New(Config{Store: &book{}, Zone: time.UTC, Now: func() time.Time { return noon }}) // a midnight in the middle would begin anew
	claim := Claim{Sender: "ann", Agent: "helper", Limits: Limits{Sender: tokens(1000), Host: Amount{Cost: 5000}}, Worst: Amount{30, 100}}
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for i := range 256 {
		wg.Go(func() {
			r, err := l.Reserve(t.Context(), claim)
			if err != nil {
				if !errors.As(err, new(*Exceeded)) {
					t.Error(err)
				}
				return
			}
			mu.Lock()
			done++
			mu.Unlock()
			r.Settle(Amount{Tokens: int64(10 + i%20), Cost: 50})
		})
	}
	wg.Wait()
	used := l.today.used[account{Sender, "ann"}]
	if used.Tokens > 1000 || used.Tokens < 971 || len(l.today.held) != 0 {
		t.Errorf("%d claims used %+v and left %v held", done, used, l.today.held)
	}
}

// TestAnotherZone: a day that begins earlier has cost what was used since then; what is under way, or not in the store yet, is counted.
func TestAnotherZone(t *testing.T) {
	for _, c := range []struct {
		name  string
		hours int // the new zone is ahead of UTC
		used  int64
		opens time.Time
	}{
		{"the day began earlier", 10, 300 + 100 + 50 + 20, time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)},
		{"the day began later", -10, 100 + 50 + 20, time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)},
		{"nothing changes", 0, 100 + 50 + 20, time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)},
	} {
		t.Run(c.name, func(t *testing.T) {
			book := &book{rows: []usage.Row{
				{At: noon.Add(-15 * time.Hour), Sender: "ann", Input: 300}, // yesterday in UTC
				{At: noon.Add(-time.Hour), Sender: "ann", Input: 100},
			}}
			l := New(Config{Store: book, Zone: time.UTC, Now: func() time.Time { return noon }})
			claim := func(limit, worst int64) Claim {
				return Claim{Sender: "ann", Limits: Limits{Sender: tokens(limit)}, Worst: tokens(worst)}
			}
			reserve := func(cl Claim) *Reservation {
				t.Helper()
				r, err := l.Reserve(t.Context(), cl)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			reserve(claim(1e6, 50)).Settle(tokens(50)) // is not in the store yet
			under := reserve(claim(1e6, 500))
			l.SetZone(time.FixedZone("elsewhere"+c.name, c.hours*3600))
			reserve(claim(1e6, 1)).Settle(tokens(0))
			under.Settle(tokens(20)) // of the day before the change
			reserve(claim(c.used+1, 1)).Settle(tokens(0))
			_, err := l.Reserve(t.Context(), claim(c.used, 1))
			var full *Exceeded
			if !errors.As(err, &full) || full.Used.Tokens != c.used || !full.Opens.Equal(c.opens) {
				t.Errorf("the error is %v, want %d used and open at %s", err, c.used, c.opens)
			}
		})
	}
}

// TestAnotherZoneCannotBeRead: without what the day has cost nothing is given out, and the next claim tries again.
func TestAnotherZoneCannotBeRead(t *testing.T) {
	book := &book{}
	l := New(Config{Store: book, Zone: time.UTC, Now: func() time.Time { return noon }})
	claim := Claim{Sender: "ann", Limits: Limits{Sender: tokens(100)}, Worst: tokens(1)}
	if _, err := l.Reserve(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	l.SetZone(time.FixedZone("elsewhere", 3600))
	book.err = errors.New("disk full")
	if _, err := l.Reserve(t.Context(), claim); err == nil {
		t.Error("room is given out unread")
	}
	book.err = nil
	if _, err := l.Reserve(t.Context(), claim); err != nil {
		t.Error(err)
	}
}

// TestHostsThatShareAStore: what one has spent counts at the other within a second, and what that has not written yet counts beside it.
func TestHostsThatShareAStore(t *testing.T) {
	now := noon
	book := &book{}
	hosts := [2]*Accounts{}
	for i := range hosts {
		hosts[i] = New(Config{Store: book, Zone: time.UTC, Now: func() time.Time { return now }, Shared: true})
	}
	claim := Claim{Sender: "ann", Agent: "helper", Limits: Limits{Sender: tokens(1000)}, Worst: tokens(100)}
	spend := func(i int, n int64, write bool) {
		t.Helper()
		r, err := hosts[i].Reserve(t.Context(), claim)
		if err != nil {
			t.Fatal(err)
		}
		r.Settle(tokens(n))
		if write {
			book.rows = append(book.rows, usage.Row{At: now, Sender: "ann", Agent: "helper", Input: n})
		}
	}
	spend(0, 100, true)
	spend(1, 100, true)
	now = now.Add(time.Second)
	spend(0, 700, true)
	if _, err := hosts[0].Reserve(t.Context(), claim); err != nil {
		t.Errorf("900 of 1000 are used: %v", err)
	}
	now = now.Add(time.Second)
	if used, err := hosts[1].Today(t.Context()); err != nil || used.Host != tokens(900) || used.Senders["ann"] != tokens(900) || used.Agents["helper"] != tokens(900) {
		t.Errorf("the other knows of %+v, %v", used, err)
	}
	spend(1, 60, false)
	var full *Exceeded
	if _, err := hosts[1].Reserve(t.Context(), claim); !errors.As(err, &full) || full.Used != tokens(960) {
		t.Errorf("960 of 1000 are used, and the other says %v", err)
	}
	now = now.Add(time.Second)
	if _, err := hosts[1].Reserve(t.Context(), claim); !errors.As(err, &full) || full.Used != tokens(960) {
		t.Errorf("after it has read the store again: %v", err)
	}
	book.err = errors.New("disk is gone")
	now = now.Add(time.Second)
	if _, err := hosts[1].Reserve(t.Context(), claim); !errors.Is(err, book.err) {
		t.Errorf("what others have spent cannot be read: %v", err)
	}
}
