package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
)

// UsageSum is the usage of model calls with one key.
type UsageSum struct {
	Key        string `json:"key,omitempty"` // sender, agent, session, "provider/model", day or task
	Calls      int64  `json:"calls"`         // attempts that were charged
	Failed     int64  `json:"failed"`        // among them
	Input      int64  `json:"input"`         // tokens, as are the following; they do not overlap
	Output     int64  `json:"output"`
	CacheRead  int64  `json:"cache_read"`
	CacheWrite int64  `json:"cache_write"`
	// CostUSD is null while no price is known for any of the calls.
	CostUSD *float64 `json:"cost_usd" doc:"null: no price is configured for any of these calls"`
	// Unpriced calls are not in CostUSD.
	Unpriced int64 `json:"unpriced,omitempty" doc:"Calls without a configured price, which cost_usd lacks"`
}

// Cost returns the known cost of a sum, in words if it is not the whole.
func (s UsageSum) Cost() string {
	switch {
	case s.CostUSD == nil:
		return "unknown"
	case s.Unpriced > 0:
		return fmt.Sprintf("at least %.4f", *s.CostUSD)
	}
	return fmt.Sprintf("%.4f", *s.CostUSD)
}

// dollars is a cost in billionths, or nil if it is not known.
func dollars(cost int64, unknown bool) *float64 {
	if cost == 0 && unknown {
		return nil
	}
	usd := float64(cost) / 1e9
	return &usd
}

// UsageSums returns sums of the store as the gateway shows them.
func UsageSums(sums []usage.Sum) []UsageSum {
	out := make([]UsageSum, 0, len(sums))
	for _, s := range sums {
		out = append(out, usageSum(s))
	}
	return out
}

func usageSum(s usage.Sum) UsageSum {
	return UsageSum{
		Key: s.Key, Calls: s.Calls, Failed: s.Failed, Input: s.Input, Output: s.Output, CacheRead: s.CacheRead, CacheWrite: s.CacheWrite,
		CostUSD: dollars(s.Cost, s.Unpriced > 0), Unpriced: s.Unpriced,
	}
}

// Usages sums up the usage of model calls, and the resources that senders hold.
type Usages interface {
	Usage(ctx context.Context, by usage.Key, f usage.Filter) ([]usage.Sum, error)
	// UsageSeries sums up usage by spans of time and by key. f.Since and f.Until are the first moment and the one after the last.
	UsageSeries(ctx context.Context, by usage.Key, step UsageStep, zone *time.Location, top int, f usage.Filter) (UsageSeries, error)
	// Budgets returns the daily budgets of the host and of its agents, and what is left of them.
	Budgets(ctx context.Context) (Budgets, error)
	// SenderBudgets returns the budget of a sender or, if sender is empty, those of all who used something today, by sender.
	SenderBudgets(ctx context.Context, sender message.SenderKey) ([]Budget, error)
	Held(ctx context.Context) ([]Held, error)
}

// Held are the resources that one sender holds; see quota.Held.
type Held struct {
	Sender        message.SenderKey `json:"sender"` // empty for resources without an owner
	Sessions      int               `json:"sessions"`
	Bytes         int64             `json:"bytes"`
	Snapshots     int64             `json:"snapshots" doc:"Bytes that undo can bring back"`
	Media         int64             `json:"media"`
	Sandboxes     int               `json:"sandboxes"`
	Processes     int               `json:"processes"`
	HostProcesses int               `json:"host_processes"` // among them
}

// KnownUSD is an amount of dollars, or nil where no price says what something costs.
func KnownUSD(usd float64, known bool) *float64 {
	if !known {
		return nil
	}
	return &usd
}

// ModelStatus is the model of one tier. State is closed (calls pass), open (it failed too often and is left alone until Until) or
// half_open (the next call is a trial).
type ModelStatus struct {
	Tier     string    `json:"tier"`
	Provider string    `json:"provider"`
	Model    string    `json:"model,omitempty"`
	State    string    `json:"state"`
	Until    time.Time `json:"until,omitzero"`
	Failures int       `json:"failures,omitempty"` // in a row
	Last     string    `json:"last,omitempty"`     // class of the latest failure
}
