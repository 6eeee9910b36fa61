package tool

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/approval"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/store"
)

// Leases finds what somebody has agreed to before; *approval.Desk is the one that there is.
type Leases interface {
	Covering(ctx context.Context, ask approval.Ask) (store.Grant, bool, error)
}

var _ Leases = (*approval.Desk)(nil)

// Judge tells what would become of a call that nobody makes, by the decision that a real one gets. Where a person would have to agree and
// has, lease is what says so. Nobody is asked, no lease is used up and nothing is written down; the verdict runs nothing.
func (e *Enforcer) Judge(ctx context.Context, s Subject, call model.ToolCall, leases Leases) (v Verdict, lease *store.Grant, err error) {
	v = e.Enforce(ctx, s, call)
	if v.Action == Ask {
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
