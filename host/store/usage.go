package store

import (
	"context"
	"time"
)

// Usage is what one attempt at a model call has cost. An attempt that failed has a row where the provider charged for it.
type Usage struct {
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
func (u Usage) Tokens() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// Spent sums up usage.
type Spent struct {
	Key string // of what it is summed by; "" for all together
	// Calls counts attempts, Failed those among them that failed.
	Calls, Failed                        int64
	Input, Output, CacheRead, CacheWrite int64
	Cost                                 int64 // billionths of a US dollar
}

// Tokens is all that a budget counts.
func (s Spent) Tokens() int64 { return s.Input + s.Output + s.CacheRead + s.CacheWrite }

// UsageKey is what usage is summed by.
type UsageKey string

// The keys of sums.
const (
	UsageAll     UsageKey = "all"
	UsageSender  UsageKey = "sender"
	UsageAgent   UsageKey = "agent"
	UsageSession UsageKey = "session"
	UsageModel   UsageKey = "model" // "provider/model"
	UsageDay     UsageKey = "day"
	UsageTask    UsageKey = "task"
)

// UsageKeys are all keys.
func UsageKeys() []UsageKey {
	return []UsageKey{UsageAll, UsageSender, UsageAgent, UsageSession, UsageModel, UsageDay, UsageTask}
}

// UsageFilter selects usage; zero fields select all.
type UsageFilter struct {
	Since, Until time.Time // Until is the first moment that does not belong
	Turn         string
	Limit        int // of sums or rows; 1000 if there is none
}

// Usages keeps what model calls cost. Rows of a turn are written by CommitTurn, with the step that they paid for.
type Usages interface {
	AddUsage(ctx context.Context, us []Usage) error
	// ListUsage returns the latest rows, oldest first.
	ListUsage(ctx context.Context, f UsageFilter) ([]Usage, error)
	// SumUsage sums usage up, the most expensive first, but days in their order.
	SumUsage(ctx context.Context, by UsageKey, f UsageFilter) ([]Spent, error)
}
