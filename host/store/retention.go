package store

import (
	"context"
	"time"
)

// Retention says up to which time rows that are only looked up may be deleted; the zero time keeps all of a kind. Pending rows and
// those that a conversation needs to continue are never deleted.
type Retention struct {
	// Said covers messages that no turn has answered, such as commands, and the replies to them. Answered messages are deleted with
	// their sessions.
	Said time.Time
	// Results covers whole results of which a step shows a part, replaced summaries, and turns from which nothing was extracted.
	Results time.Time
	// Decisions covers decisions of policies and of the host, and answered requests for approval.
	Decisions time.Time
	Audit     time.Time
	Usage     time.Time
	// Blobs covers files that hosts give each other, which neither a part nor an unsent reply names, and requests for them.
	Blobs time.Time
}

// Pruning deletes expired rows.
type Pruning interface {
	// Prune deletes a few rows at a time, so that it does not delay other writes, and returns the number of deleted rows by table. If
	// ctx ends it stops between two steps.
	Prune(ctx context.Context, r Retention) (map[string]int, error)
	// Shrink returns unused space to the file system, a little at a time, if there is much of it. It returns the number of bytes.
	Shrink(ctx context.Context) (int64, error)
}
