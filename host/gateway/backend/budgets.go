package backend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
)

// UsageSeries implements gateway.Usages.
func (u Usage) UsageSeries(ctx context.Context, by usage.Key, step gateway.UsageStep, zone *time.Location, top int,
	f usage.Filter) (gateway.UsageSeries, error) {
	spans := step.Spans(f.Since, f.Until, zone)
	if len(spans) > gateway.MaxSpans+1 {
		return gateway.UsageSeries{}, gateway.BadRequest(fmt.Sprintf("more than %d spans: choose a longer step or a later since", gateway.MaxSpans))
	}
	if len(spans) < 2 {
		return gateway.UsageSeries{}, gateway.BadRequest("until must be after since")
	}
	bounds := make([]int64, len(spans))
	for i, at := range spans {
		bounds[i] = at.UnixNano()
	}
	points, err := u.Store.UsageSeries(ctx, by, bounds, top, f)
	if err != nil {
		return gateway.UsageSeries{}, err
	}
	return gateway.NewUsageSeries(step, spans, points), nil
}

// Budgets implements gateway.Usages.
func (u Usage) Budgets(ctx context.Context) (gateway.Budgets, error) {
	spent, err := u.Accounts.Today(ctx)
	if err != nil {
		return gateway.Budgets{}, err
	}
	now := u.Current()
	unpriced := unpricedTiers(now.Config)
	some := len(unpriced) > 0
	out := gateway.Budgets{
		Day: spent.Day, Zone: spent.Zone, Opens: spent.Opens, Unpriced: unpriced,
		Host: gateway.NewBudget("", spent.Host, now.Budgets.Host, some), Agents: []gateway.Budget{},
		Turn: gateway.TurnBudget{
			Steps: now.Limits.Steps, ToolCalls: now.Limits.ToolCalls, Tokens: now.Limits.Tokens, Seconds: int(now.Limits.Time / time.Second),
		},
	}
	for _, name := range now.Names {
		out.Agents = append(out.Agents, gateway.NewBudget(name, spent.Agents[name], now.Agents[name].Budget, some))
	}
	return out, nil
}

// SenderBudgets implements gateway.Usages.
func (u Usage) SenderBudgets(ctx context.Context, sender message.SenderKey) ([]gateway.Budget, error) {
	spent, err := u.Accounts.Today(ctx)
	if err != nil {
		return nil, err
	}
	delete(spent.Senders, "") // the host's own tasks
	names := slices.Sorted(maps.Keys(spent.Senders))
	if sender != "" {
		names = []string{string(sender)}
	}
	now := u.Current()
	some := len(unpricedTiers(now.Config)) > 0
	var out []gateway.Budget
	for _, name := range names {
		out = append(out, gateway.NewBudget(name, spent.Senders[name], now.Budgets.Sender, some))
	}
	return out, nil
}

// unpricedTiers are the tiers whose calls cost something that the configuration does not say.
func unpricedTiers(c *config.Config) []string {
	out := []string{}
	for _, tier := range slices.Sorted(maps.Keys(c.Models)) {
		if !priced(c.Models[tier]) {
			out = append(out, tier)
		}
	}
	return out
}
