package journal

import (
	"context"
	"iter"
	"time"
)

// ShadowDifference is one decision that a shadow policy would have changed.
type ShadowDifference struct {
	At      time.Time
	Policy  string // the shadow
	Digest  string // of its module, data and limits
	File    string // SHA-256 of its module's file
	Against string // the policy that it is compared with, "" for the whole chain
	Kind    string // route or tool
	Was     string // the answer that took effect, and why
	WasWhy  string
	Is      string // what it would have been, and why
	IsWhy   string
	Channel string
	Sender  string
	Tool    string
}

// ShadowCount is how often a shadow policy was asked in one day, by outcome.
type ShadowCount struct {
	Day                                    time.Time // its beginning, UTC
	Policy, Digest, File, Against, Outcome string
	Count                                  int64
}

// ShadowFilter selects records of shadow policies; zero fields select all. Counts are selected by whole days.
type ShadowFilter struct {
	Policy string
	Since  time.Time
}

// Shadows keeps what shadow policies would have changed, for a month and up to a bounded size.
type Shadows interface {
	// AddShadow adds differences, and adds to counts.
	AddShadow(ctx context.Context, differences []ShadowDifference, counts []ShadowCount) error
	// ShadowCounts returns counts, oldest day first.
	ShadowCounts(ctx context.Context, f ShadowFilter) ([]ShadowCount, error)
	// ShadowDifferences returns differences, oldest first.
	ShadowDifferences(ctx context.Context, f ShadowFilter) iter.Seq2[ShadowDifference, error]
}
