package backend

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/sandbox/quota"
)

// Usage is the usage of model calls, and the resources that senders hold.
type Usage struct {
	Store interface {
		SumUsage(ctx context.Context, by usage.Key, f usage.Filter) ([]usage.Sum, error)
		UsageSeries(ctx context.Context, by usage.Key, bounds []int64, top int, f usage.Filter) ([]usage.Point, error)
		Holders(ctx context.Context) ([]turnlog.Holder, error)
	}
	Media interface {
		Owned() map[message.SenderKey]int64
	}
	// Sandboxes returns what sessions hold in sandboxes and on disk.
	Sandboxes interface{ Holdings() quota.Holdings }
	Accounts  interface {
		Today(ctx context.Context) (budget.Spent, error)
	}
	Current func() InForce
}

var _ gateway.Usages = Usage{}

// Usage implements gateway.Usages.
func (u Usage) Usage(ctx context.Context, by usage.Key, f usage.Filter) ([]usage.Sum, error) {
	return u.Store.SumUsage(ctx, by, f)
}

// Held implements gateway.Usages.
func (u Usage) Held(ctx context.Context) ([]gateway.Held, error) {
	holders, err := u.Store.Holders(ctx)
	if err != nil {
		return nil, err
	}
	in := u.Sandboxes.Holdings()
	in.Senders, in.Media = Senders(holders), u.Media.Owned()
	return Held(in), nil
}

// Held returns the report of what senders hold as the gateway shows it.
func Held(in quota.Holdings) []gateway.Held {
	list := []gateway.Held{}
	for _, h := range quota.Report(in) {
		list = append(list, gateway.Held(h))
	}
	return list
}

// Senders returns the senders of sessions, by the names of their workspaces.
func Senders(holders []turnlog.Holder) map[message.WorkspaceKey]message.SenderKey {
	senders := map[message.WorkspaceKey]message.SenderKey{}
	for _, h := range holders {
		senders[h.Session.Parse().Workspace()] = h.Sender
	}
	return senders
}
