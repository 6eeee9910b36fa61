// Package spool keeps records for a store without making anybody wait.
//
// Start with New. Put never waits; what the store cannot take in time is dropped, and so is what it cannot write: both are told and
// said in the log. It is for what is good to have, such as logs of decisions; what a user was promised has no place here.
package spool

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Config says how records are kept.
type Config[T any] struct {
	Name string // in the log
	// Queue bounds the records that wait, Batch those that are written together.
	Queue, Batch int
	// Pause collects records, so that a flood costs the disk no more than a few commits a second.
	Pause time.Duration
	// Write commits a batch; it has ten seconds.
	Write func(ctx context.Context, batch []T) error
	// Lost is called with the number of records that were dropped or could not be written.
	Lost func(lost []T)
	Log  *slog.Logger
}

// writeTimeout bounds one commit.
const writeTimeout = 10 * time.Second

// Spool is a queue before a store. It takes no memory but for what waits in it.
type Spool[T any] struct {
	Config[T]
	came    chan struct{} // has a value while records wait
	dropped atomic.Int64

	mu      sync.Mutex
	waiting []T
}

// New makes a spool; its records are written while Run runs.
func New[T any](c Config[T]) *Spool[T] { return &Spool[T]{Config: c, came: make(chan struct{}, 1)} }

// Put takes a record. It never waits.
func (s *Spool[T]) Put(r T) {
	if !s.take(r) {
		s.dropped.Add(1)
		s.Lost([]T{r})
	}
}

func (s *Spool[T]) take(r T) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == s.Queue {
		return false
	}
	s.waiting = append(s.waiting, r)
	s.tell()
	return true
}

// tell says that records wait.
func (s *Spool[T]) tell() {
	select {
	case s.came <- struct{}{}:
	default:
	}
}

// Run writes records until ctx ends, and then what is left.
func (s *Spool[T]) Run(ctx context.Context) error {
	pause := time.NewTimer(s.Pause)
	defer pause.Stop()
	for ctx.Err() == nil {
		select {
		case <-s.came:
			pause.Reset(s.Pause)
			select { // let others join it
			case <-pause.C:
			case <-ctx.Done():
			}
			s.write(ctx, s.batch())
		case <-ctx.Done():
		}
	}
	for batch := s.batch(); len(batch) > 0; batch = s.batch() {
		s.write(ctx, batch)
	}
	return nil
}

// batch takes the oldest of what waits.
func (s *Spool[T]) batch() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.waiting), s.Batch)
	batch := slices.Clone(s.waiting[:n])
	if s.waiting = slices.Delete(s.waiting, 0, n); len(s.waiting) > 0 {
		s.tell()
		return batch
	}
	s.waiting = nil
	select { // those of them that came during the pause have told it again
	case <-s.came:
	default:
	}
	return batch
}

func (s *Spool[T]) write(ctx context.Context, batch []T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := s.Write(ctx, batch); err != nil {
		s.Log.Error("records cannot be written", "of", s.Name, "records", len(batch), "error", err)
		s.Lost(batch)
	}
	if n := s.dropped.Swap(0); n > 0 {
		s.Log.Warn("dropped records that came faster than they could be written", "of", s.Name, "dropped", n)
	}
}
