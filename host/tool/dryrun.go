package tool

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Leases finds earlier approvals; *approval.Service implements it.
type Leases interface {
	Covering(ctx context.Context, ask approval.Ask) (consent.Grant, bool, error)
}

var _ Leases = (*approval.Service)(nil)

// DryRun returns the decision that a call would get now. If it needs an approval and a lease covers it, lease is that grant; leases may be
// nil. DryRun asks nobody, uses no lease and records nothing. A Runner refuses the decision.
func (e *Enforcer) DryRun(ctx context.Context, s Subject, call model.ToolCall, leases Leases) (v Decision, lease *consent.Grant, err error) {
	v = e.enforce(ctx, s, call)
	if v.Action == Ask && leases != nil {
		g, ok, err := leases.Covering(ctx, v.request(s))
		if err != nil {
			return Decision{}, nil, fmt.Errorf("look for a lease: %w", err)
		}
		if ok {
			lease = &g
		}
	}
	v.tool = nil
	return v, lease, nil
}
