package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/store"
)

// slowLog is a store that takes its time, or fails.
type slowLog struct {
	store.EgressLog
	wait chan struct{}
	err  error

	mu      sync.Mutex
	batches [][]store.EgressRecord
}

func (s *slowLog) AddEgress(_ context.Context, rs []store.EgressRecord) error {
	if s.wait != nil {
		<-s.wait
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, rs)
	return s.err
}

func (s *slowLog) all() (all []store.EgressRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.batches {
		all = append(all, b...)
	}
	return all
}

// The records come in their order, together, and none is left when the log ends.
func TestEgressLogBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &slowLog{}
		l := newEgressLog(kept, nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.run(ctx) }()
		for i := range 10 {
			l.decided("irc:#x:helper", egress.Decision{ID: fmt.Sprint(i), Addrs: []netip.Addr{netip.MustParseAddr("93.184.216.34")}, Allowed: i%2 == 0})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(kept.batches) != 1 || len(kept.all()) != 10 {
			t.Fatalf("%d batches of %d records", len(kept.batches), len(kept.all()))
		}
		if r := kept.all()[3]; r.ID != "3" || r.Agent != "helper" || r.Kind != "proxy" || r.Allowed || r.Addrs[0] != "93.184.216.34" {
			t.Errorf("record %+v", r)
		}
		l.ended("irc:#x:helper", egress.Decision{ID: "2", Up: 1, Down: 2})
		cancel()
		if err := <-done; err != nil || len(kept.all()) != 11 {
			t.Errorf("%d records at the end (%v)", len(kept.all()), err)
		}
	})
}

// A store that hangs or fails holds up nobody; what is lost is counted and said.
func TestEgressLogNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &slowLog{wait: make(chan struct{}), err: errors.New("disk is full")}
		var told bytes.Buffer
		l := newEgressLog(kept, nil, slog.New(slog.NewTextHandler(&told, nil)))
		lost := 0
		l.lose = func(n int) { lost += n }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.run(ctx) }()
		l.decided("s", egress.Decision{ID: "first"})
		time.Sleep(time.Second)
		synctest.Wait() // the first is being written
		for range egressQueue + 5 {
			l.decided("s", egress.Decision{ID: "later", Reason: strings.Repeat("x", 1<<20)})
		}
		if lost != 5 {
			t.Errorf("%d are lost, want 5", lost)
		}
		close(kept.wait)
		cancel()
		<-done
		if lost != egressQueue+6 || !strings.Contains(told.String(), "dropped=5") || !strings.Contains(told.String(), "disk is full") {
			t.Errorf("%d are lost, said %q", lost, told.String())
		}
		if r := kept.all()[1]; len(r.Reason) != maxEgressText {
			t.Errorf("a reason of %d bytes is kept", len(r.Reason))
		}
	})
}
