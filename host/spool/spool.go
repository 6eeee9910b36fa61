// Package spool keeps records for a store without making anybody wait.
//
// Start with New. Put never waits; what the store cannot take in time is dropped, and so is what it cannot write: both are told and
// said in the log. It is for what is good to have, such as logs of decisions; what a user was promised has no place here.
package spool

import (
	"context"
	"log/slog"
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
	// Lost is told of records that were dropped or could not be written.
	Lost func(lost []T)
	Log  *slog.Logger
}

// writeTimeout bounds one commit.
const writeTimeout = 10 * time.Second

// Spool is a queue before a store.
type Spool[T any] struct {
	Config[T]
	queue   chan T
	dropped atomic.Int64
}

// New makes a spool; its records are written while Run runs.
func New[T any](c Config[T]) *Spool[T] { return &Spool[T]{Config: c, queue: make(chan T, c.Queue)} }

// Put takes a record. It never waits.
func (s *Spool[T]) Put(r T) {
	select {
	case s.queue <- r:
	default:
		s.dropped.Add(1)
		s.Lost([]T{r})
	}
}

// Run writes records until ctx ends, and then what is left.
func (s *Spool[T]) Run(ctx context.Context) error {
	pause := time.NewTimer(s.Pause)
	defer pause.Stop()
	for ctx.Err() == nil {
		select {
		case r := <-s.queue:
			pause.Reset(s.Pause)
			select { // let others join it
			case <-pause.C:
			case <-ctx.Done():
			}
			s.write(ctx, s.batch(r))
		case <-ctx.Done():
		}
	}
	for {
		select {
		case r := <-s.queue:
			s.write(ctx, s.batch(r))
		default:
			return nil
		}
	}
}

// batch takes what waits, beginning with r.
func (s *Spool[T]) batch(r T) []T {
	batch := []T{r}
	for len(batch) < s.Batch {
		select {
		case r := <-s.queue:
			batch = append(batch, r)
		default:
			return batch
		}
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
		s.Log.Warn("records are missing: they came faster than they could be written", "of", s.Name, "dropped", n)
	}
}
