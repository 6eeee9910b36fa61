package main

import (
	"context"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/cache"
)

// statuses remembers the status reports for sent messages. A request carries the idempotency key, which each status repeats, so that the
// outcome of a send can still be determined if its response was lost.
type statuses struct {
	byKey cache.Map[string, fate]

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever byKey changes
}

// fate is the status of one part of a send.
type fate struct {
	wamid  string
	failed *graphError // nil: it went out
}

const (
	maxFates = 4096
	fateKept = 48 * time.Hour
)

func newStatuses() *statuses {
	return &statuses{byKey: cache.Map[string, fate]{Most: maxFates}, changed: make(chan struct{})}
}

// learn takes one status. The first one of a key counts.
func (s *statuses) learn(key string, f fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.byKey.Get(key); known || key == "" {
		return
	}
	s.byKey.Set(key, f, fateKept)
	close(s.changed)
	s.changed = make(chan struct{})
}

// forget makes room for the next try of a key that failed.
func (s *statuses) forget(key string) { s.byKey.Delete(key) }

// wait returns the status of key as soon as it is known, and false if it is not known within d.
func (s *statuses) wait(ctx context.Context, key string, d time.Duration) (fate, bool) {
	patience := time.NewTimer(d)
	defer patience.Stop()
	for {
		s.mu.Lock()
		f, ok := s.byKey.Get(key)
		changed := s.changed
		s.mu.Unlock()
		if ok {
			return f, true
		}
		select {
		case <-changed:
		case <-patience.C:
			return fate{}, false
		case <-ctx.Done():
			return fate{}, false
		}
	}
}
