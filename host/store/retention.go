package store

import (
	"context"
	"time"
)

// Retention says up to when what is only looked back at may go; the zero time keeps all of a kind. What anything still waits for, and what
// a conversation is continued with, is never among it.
type Retention struct {
	// Said: messages that no turn has answered, such as commands, and what was said to them. What turns have answered goes with their
	// sessions.
	Said time.Time
	// Results: whole results of which a step shows a part, summaries that a later one has replaced, and turns from which nothing was
	// extracted.
	Results time.Time
	// Decisions of policies and of the host, and requests for approval that have their answer.
	Decisions time.Time
	Audit     time.Time
	Usage     time.Time
}

// Pruning deletes what is past its time.
type Pruning interface {
	// Prune deletes a few rows at a time, so that no other write waits for it for long, and returns how many went, by table. An end of
	// ctx stops it between two steps.
	Prune(ctx context.Context, r Retention) (map[string]int, error)
	// Shrink gives space that is no longer used back to the file system, a little at a time as Prune does, where there is much of it. It
	// returns how many bytes that were.
	Shrink(ctx context.Context) (int64, error)
}
