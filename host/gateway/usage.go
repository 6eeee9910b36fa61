package gateway

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
)

// UsageSum is the usage of model calls with one key.
type UsageSum struct {
	Key        string  `json:"key,omitempty"` // sender, agent, session, "provider/model", day or task
	Calls      int64   `json:"calls"`         // attempts that were charged
	Failed     int64   `json:"failed"`        // among them
	Input      int64   `json:"input"`         // tokens, as are the following; they do not overlap
	Output     int64   `json:"output"`
	CacheRead  int64   `json:"cache_read"`
	CacheWrite int64   `json:"cache_write"`
	CostUSD    float64 `json:"cost_usd"`
}

// UsageSums returns sums of the store as the gateway shows them.
func UsageSums(sums []usage.Sum) []UsageSum {
	out := make([]UsageSum, 0, len(sums))
	for _, s := range sums {
		out = append(out, UsageSum{
			Key: s.Key, Calls: s.Calls, Failed: s.Failed, Input: s.Input, Output: s.Output, CacheRead: s.CacheRead, CacheWrite: s.CacheWrite,
			CostUSD: float64(s.Cost) / 1e9,
		})
	}
	return out
}

// Usages sums up the usage of model calls, and the resources that senders hold.
type Usages interface {
	Usage(ctx context.Context, by usage.Key, since time.Time) ([]usage.Sum, error)
	Held(ctx context.Context) ([]Held, error)
}

// Held are the resources that one sender holds; see quota.Held.
type Held struct {
	Sender        message.SenderKey `json:"sender"` // empty for resources without an owner
	Sessions      int               `json:"sessions"`
	Bytes         int64             `json:"bytes"`
	Media         int64             `json:"media"`
	Sandboxes     int               `json:"sandboxes"`
	Processes     int               `json:"processes"`
	HostProcesses int               `json:"host_processes"` // among them
}

func (s *Server) held(ctx context.Context, _ *http.Request) (any, error) {
	return s.backend.Usages.Held(ctx)
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

func (s *Server) usage(ctx context.Context, r *http.Request) (any, error) {
	by, since := cmp.Or(usage.Key(r.URL.Query().Get("by")), usage.All), time.Time{}
	var err error
	if text := r.URL.Query().Get("since"); text != "" {
		since, err = time.Parse(time.RFC3339, text)
	}
	if err != nil || !slices.Contains(usage.Keys(), by) {
		return nil, badRequest("by is all, sender, agent, session, model, day or task; since is a time such as 2026-03-01T12:00:00Z")
	}
	sums, err := s.backend.Usages.Usage(ctx, by, since)
	return UsageSums(sums), err
}
