package tool

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Leases finds what somebody has agreed to before; *approval.Desk is the one that there is.
type Leases interface {
	Covering(ctx context.Context, ask approval.Ask) (consent.Grant, bool, error)
}

var _ Leases = (*approval.Desk)(nil)

// DryRun returns the decision that a call would get if it were made now. Where a person would have to agree and has, lease is the grant
// that says so; leases may be nil. Nobody is asked, no lease is used up and nothing is written down. The verdict cannot run: a Runner
// refuses it.
func (e *Enforcer) DryRun(ctx context.Context, s Subject, call model.ToolCall, leases Leases) (v Verdict, lease *consent.Grant, err error) {
	v = e.enforce(ctx, s, call)
	if v.Action == Ask && leases != nil {
		g, ok, err := leases.Covering(ctx, v.request(s))
		if err != nil {
			return Verdict{}, nil, fmt.Errorf("look for a lease: %w", err)
		}
		if ok {
			lease = &g
		}
	}
	v.tool = nil
	return v, lease, nil
}
