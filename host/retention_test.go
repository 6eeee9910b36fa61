package host

import (
	"context"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/store"
)

func TestRetention(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	got := retention(config.Retention{ResultsDays: 1, UsageDays: 400}, now)
	want := store.Retention{Results: now.Add(-48 * time.Hour), Usage: now.AddDate(0, 0, -401)}
	if got != want {
		t.Errorf("keeps up to %+v, want %+v", got, want)
	}
}

// TestTheHostPrunes: by the configuration in force, requests of strangers among it.
func TestTheHostPrunes(t *testing.T) {
	h := pairingHost(t)
	now := time.Now()
	days := func(n int) time.Time { return now.AddDate(0, 0, -n) }
	rows := []store.Usage{{At: days(500), Day: "d", Agent: "old"}, {At: days(300), Day: "d", Agent: "a"}, {At: days(1), Day: "d", Agent: "a"}}
	if err := h.store.AddUsage(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	gone := store.Pairing{Sender: "tg:gone", ID: "p", State: store.PairingOpen, Until: days(2), Expires: days(2)}
	if _, err := h.store.PutPairing(t.Context(), gone, "pairing-p", nil); err != nil {
		t.Fatal(err)
	}
	if err := h.openPairings(t.Context()); err != nil { // it reads what is there
		t.Fatal(err)
	}
	for _, c := range []struct{ keep, want int }{{400, 2}, {200, 1}, {0, 1}} {
		next := *h.current.Load().config
		next.Retention.UsageDays = c.keep
		g, err := h.newGeneration(&next)
		if err != nil {
			t.Fatal(err)
		}
		h.current.Store(g)
		h.prune(t.Context(), now)
		if left, err := h.store.ListUsage(t.Context(), store.UsageFilter{}); err != nil || len(left) != c.want {
			t.Errorf("kept for %d days: %d rows are left (%v), want %d", c.keep, len(left), err, c.want)
		}
	}
	if left, err := h.store.ListPairings(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("requests left: %+v (%v)", left, err)
	}
}

// TestTheFirstLookIsAtTheStart: a host that is restarted before an hour is over prunes all the same.
func TestTheFirstLookIsAtTheStart(t *testing.T) {
	h := pairingHost(t)
	if err := h.store.AddUsage(t.Context(), []store.Usage{{At: time.Now().AddDate(-9, 0, 0), Day: "d", Agent: "old"}}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.keepHouse(ctx) }()
	for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		left, err := h.store.ListUsage(t.Context(), store.UsageFilter{})
		if err != nil || time.Now().After(late) {
			t.Fatalf("%d rows are left, %v", len(left), err)
		}
		if len(left) == 0 {
			break
		}
	}
	stop()
	<-done
}
