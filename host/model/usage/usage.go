// Package usage declares the records of the cost of model calls.
//
// Start with Row. Package budget compares the sums with limits, and package sqlite keeps the rows; this package does neither.
package usage

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Row is the cost of one attempt at a model call. A failed attempt has a row if the provider charged for it.
type Row struct {
	ID      int64
	At      time.Time // begin of the attempt, which is charged to its day
	Day     string    // "2026-11-21", local to the host
	Turn    string    // "" outside a turn
	Step    int       // sequence number of the step that the answer became
	Session message.SessionKey
	Sender  message.SenderKey
	Agent   string
	Task    string // of the host, such as compaction; "" for an agent's answer

	Tier, Provider, Model string
	Attempt               int    // from 1, within its tier
	Failure               string // class of the failure, or ""

	Input, Output, CacheRead, CacheWrite int64 // tokens, which do not overlap
	Cost                                 int64 // billionths of a US dollar
	Estimated                            bool  // the provider gave no figures
}

// Tokens is the sum that budgets count.
func (u Row) Tokens() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// Sum sums up usage.
type Sum struct {
	Key string // value of the Key that it is summed by; "" for All
	// Calls counts attempts, Failed those among them that failed.
	Calls, Failed                        int64
	Input, Output, CacheRead, CacheWrite int64
	Cost                                 int64 // billionths of a US dollar
	// Unpriced counts calls that used tokens for which no price was configured: what they cost is not in Cost.
	Unpriced int64
}

// Free is the provider that costs nothing, and so needs no prices.
const Free = "demo"

// Point is the part of a sum that belongs to one span of time.
type Point struct {
	Span int // number of the span, from 0
	Sum
	// Rest is true for the sum of all keys that have no points of their own.
	Rest bool
}

// Tokens is the sum that budgets count.
func (s Sum) Tokens() int64 { return s.Input + s.Output + s.CacheRead + s.CacheWrite }

// Key names the field that usage is summed by.
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
	Sender       message.SenderKey
	Limit        int // of sums or rows; 1000 if there is none
}

// Log keeps the usage of model calls. CommitTurn writes the rows of a turn, together with the step that they paid for.
type Log interface {
	AddUsage(ctx context.Context, us []Row) error
	// ListUsage returns the latest rows, oldest first.
	ListUsage(ctx context.Context, f Filter) ([]Row, error)
	// SumUsage sums up usage. Sums are sorted by cost, the highest first, but days by date.
	SumUsage(ctx context.Context, by Key, f Filter) ([]Sum, error)
	// UsageSeries sums up usage by the spans between bounds, in nanoseconds since 1970, and within each by key: the keys with the highest
	// sums over all spans, top in number, and the rest. Since, Until and Limit of the filter do not count. Spans and keys without usage have no
	// point.
	UsageSeries(ctx context.Context, by Key, bounds []int64, top int, f Filter) ([]Point, error)
}
