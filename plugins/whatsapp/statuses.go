package main

import (
	"context"
	"sync"
	"time"
)

// statuses remembers what WhatsApp told of sent messages. A request carries the idempotency key, which comes back with each status:
// so a send whose answer was lost can still be settled.
type statuses struct {
	mu      sync.Mutex
	byKey   map[string]fate
	changed chan struct{} // closed and replaced whenever byKey changes
}

// fate is what became of one part of a send.
type fate struct {
	wamid  string
	failed *graphError // nil: it went out
	at     time.Time
}

const (
	maxFates = 4096
	fateKept = 48 * time.Hour
)

func newStatuses() *statuses {
	return &statuses{byKey: map[string]fate{}, changed: make(chan struct{})}
}

// learn takes one status. What failed stays failed, and what went out went out, whatever is said later.
func (s *statuses) learn(key string, f fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.byKey[key]; known || key == "" {
		return
	}
	if len(s.byKey) >= maxFates {
		for old, was := range s.byKey {
			if time.Since(was.at) > fateKept {
				delete(s.byKey, old)
			}
		}
		if len(s.byKey) >= maxFates {
			clear(s.byKey)
		}
	}
	s.byKey[key] = f
	close(s.changed)
	s.changed = make(chan struct{})
}

// forget makes room for the next try of a key that failed.
func (s *statuses) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byKey, key)
}

// wait returns what became of key, as soon as that is known, and false when it is not within d.
func (s *statuses) wait(ctx context.Context, key string, d time.Duration) (fate, bool) {
	patience := time.NewTimer(d)
	defer patience.Stop()
	for {
		s.mu.Lock()
		f, ok := s.byKey[key]
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
