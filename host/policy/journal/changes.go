package journal

import (
	"context"
	"time"
)

// Change is one event in the life of a policy; policy.Change says what the fields mean.
type Change struct {
	ID        int64     `json:"id"`
	At        time.Time `json:"at"`
	Policy    string    `json:"policy"`
	Path      string    `json:"path,omitempty"`
	Outcome   string    `json:"outcome"`
	File      string    `json:"file,omitempty"`
	Digest    string    `json:"digest,omitempty"`
	Version   string    `json:"version,omitempty"` // by the policy.toml beside the module
	Source    string    `json:"source,omitempty"`  // digest of what it was built from, by the same
	Over      string    `json:"over,omitempty"`
	NowFile   string    `json:"now_file,omitempty"`
	NowDigest string    `json:"now_digest,omitempty"`
	By        string    `json:"by"`
	Reason    string    `json:"reason,omitempty"`
}

// Module is a module whose digest decisions are recorded with.
type Module struct {
	Digest  string    `json:"digest"` // of the module, its data, its limits and the meter
	File    string    `json:"file"`   // SHA-256 of the module
	Policy  string    `json:"policy"`
	Version string    `json:"version,omitempty"`
	Source  string    `json:"source,omitempty"`
	At      time.Time `json:"at"` // when it was first loaded to come into force
}

// ChangeFilter selects changes; zero fields select all.
type ChangeFilter struct {
	Policy string
	Limit  int // the number of latest changes; 0 is 1000
}

// Changes keeps the history of policies.
type Changes interface {
	// AddPolicyModule adds a module; if its digest is known it does nothing.
	AddPolicyModule(ctx context.Context, m Module) error
	PolicyModule(ctx context.Context, digest string) (Module, error)
	// AddPolicyChange appends to the history, unless the change only repeats the policy's last one. A bounded number of changes, the
	// latest, is kept for each policy.
	AddPolicyChange(ctx context.Context, c Change) error
	// ListPolicyChanges returns changes in the order in which they came.
	ListPolicyChanges(ctx context.Context, f ChangeFilter) ([]Change, error)
	// LatestDecisionsSince returns the time of the nth latest decision of a policy, that of the oldest if there are fewer, and zero if there
	// is none.
	LatestDecisionsSince(ctx context.Context, policy string, n int) (time.Time, error)
	// PolicyFiles returns the SHA-256 of every module that the history names.
	PolicyFiles(ctx context.Context) ([]string, error)
}
