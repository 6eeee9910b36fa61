// Package usage has what is kept of the cost of model calls.
//
// Start with Row. Package budget compares the sums with limits, and package sqlite keeps the rows; this package does neither.
package usage

import (
	"context"
	"time"
)

// Row is what one attempt at a model call has cost. An attempt that failed has a row where the provider charged for it.
type Row struct {
	ID      int64
	At      time.Time // begin of the attempt, which is charged to its day
	Day     string    // "2026-11-21", local to the host
	Turn    string    // "" outside a turn
	Step    int       // sequence number of the step that the answer became
	Session string
	Sender  string // "instance:platform-id"
	Agent   string
	Task    string // of the host's own, such as compaction; "" for an agent's answer

	Tier, Provider, Model string
	Attempt               int    // from 1, within its tier
	Failure               string // class of the failure, or ""

	Input, Output, CacheRead, CacheWrite int64 // tokens, which do not overlap
	Cost                                 int64 // billionths of a US dollar
	Estimated                            bool  // the provider gave no figures
}

// Tokens is all that a budget counts.
func (u Row) Tokens() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// Sum sums up usage.
type Sum struct {
	Key string // of what it is summed by; "" for all together
	// Calls counts attempts, Failed those among them that failed.
	Calls, Failed                        int64
	Input, Output, CacheRead, CacheWrite int64
	Cost                                 int64 // billionths of a US dollar
}

// Tokens is all that a budget counts.
func (s Sum) Tokens() int64 { return s.Input + s.Output + s.CacheRead + s.CacheWrite }

// Key is what usage is summed by.
type Key string

// The keys of sums.
const (
	All       Key = "all"
	BySender  Key = "sender"
	ByAgent   Key = "agent"
	BySession Key = "session"
	ByModel   Key = "model" // "provider/model"
	ByDay     Key = "day"
	ByTask    Key = "task"
)

// Keys are all keys.
func Keys() []Key {
	return []Key{All, BySender, ByAgent, BySession, ByModel, ByDay, ByTask}
}

// Filter selects usage; zero fields select all.
type Filter struct {
	Since, Until time.Time // Until is the first moment that does not belong
	Turn         string
	Limit        int // of sums or rows; 1000 if there is none
}

// Log keeps what model calls cost. Rows of a turn are written by CommitTurn, with the step that they paid for.
type Log interface {
	AddUsage(ctx context.Context, us []Row) error
	// ListUsage returns the latest rows, oldest first.
	ListUsage(ctx context.Context, f Filter) ([]Row, error)
	// SumUsage sums usage up, the most expensive first, but days in their order.
	SumUsage(ctx context.Context, by Key, f Filter) ([]Sum, error)
}
