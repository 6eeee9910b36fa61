// Package batch writes records to a store in batches, so that no caller waits for the store.
//
// Start with New. Put never blocks: a record that finds the queue full is dropped, and so is a batch that the store refuses; both are
// counted and logged. Use it for records that are good to have, such as logs of decisions, and never for what a user was promised.
package batch

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
	// Pause is how long a record waits for others to join it, so that a flood costs the disk no more than a few commits a second.
	Pause time.Duration
	// Write commits a batch; it has ten seconds.
	Write func(ctx context.Context, batch []T) error
	// Lost is called with the records that were dropped or could not be written.
	Lost func(lost []T)
	Log  *slog.Logger
}

// writeTimeout bounds one commit.
const writeTimeout = 10 * time.Second

// Writer is a queue before a store.
type Writer[T any] struct {
	Config[T]
	queue   chan *T // pointers: a long queue of large records takes no memory while it is empty
	dropped atomic.Int64
}

// New makes a writer; its records are written while Run runs.
func New[T any](c Config[T]) *Writer[T] { return &Writer[T]{Config: c, queue: make(chan *T, c.Queue)} }

// Put queues a record, or drops it where the queue is full.
func (w *Writer[T]) Put(r T) {
	select {
	case w.queue <- &r:
	default:
		w.dropped.Add(1)
		w.Lost([]T{r})
	}
}

// Run writes records until ctx ends, and then those that are left.
func (w *Writer[T]) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case first := <-w.queue:
			select {
			case <-time.After(w.Pause):
			case <-ctx.Done():
			}
			w.write(ctx, first)
		case <-ctx.Done():
		}
	}
	for {
		select {
		case first := <-w.queue:
			w.write(ctx, first)
		default:
			return nil
		}
	}
}

// write writes a record together with those that wait.
func (w *Writer[T]) write(ctx context.Context, first *T) {
	batch := []T{*first}
	for range min(len(w.queue), w.Batch-1) {
		batch = append(batch, *<-w.queue)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := w.Write(ctx, batch); err != nil {
		w.Log.Error("cannot write records", "of", w.Name, "records", len(batch), "error", err)
		w.Lost(batch)
	}
	if n := w.dropped.Swap(0); n > 0 {
		w.Log.Warn("dropped records that came faster than they could be written", "of", w.Name, "dropped", n)
	}
}
