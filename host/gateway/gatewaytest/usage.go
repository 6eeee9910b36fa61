package gatewaytest

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
)

// Usage implements gateway.Usages.
func (b *Backend) Usage(_ context.Context, by usage.Key, f usage.Filter) ([]usage.Sum, error) {
	if b.Spent == nil {
		return nil, nil
	}
	return b.Spent(by, f.Since)
}

// UsageSeries implements gateway.Usages.
func (b *Backend) UsageSeries(context.Context, usage.Key, gateway.UsageStep, *time.Location, int, usage.Filter) (gateway.UsageSeries, error) {
	return gateway.UsageSeries{Starts: []time.Time{}, Series: []gateway.UsageLine{}}, nil
}

// Budgets implements gateway.Usages.
func (b *Backend) Budgets(context.Context) (gateway.Budgets, error) {
	return gateway.Budgets{Unpriced: []string{}, Agents: []gateway.Budget{}}, nil
}

// SenderBudgets implements gateway.Usages.
func (b *Backend) SenderBudgets(context.Context, message.SenderKey) ([]gateway.Budget, error) {
	return nil, nil
}

// Held implements gateway.Usages.
func (b *Backend) Held(context.Context) ([]gateway.Held, error) { return b.Holds, nil }
