package host

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/media"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// budgetZone says when the day of the daily budgets begins.
func budgetZone(c *config.Config) *time.Location {
	zone, err := c.Budgets.Location()
	if err != nil { // the check has seen it
		zone = time.Local
	}
	return zone
}

// dailyBudgets are those of senders and of the host, and of agents that are not configured.
func dailyBudgets(b config.Budgets) budget.Limits {
	limit := func(tokens int, usd float64) budget.Amount {
		return budget.Amount{Tokens: int64(tokens), Cost: agent.Dollars(usd)}
	}
	return budget.Limits{
		Sender: limit(b.SenderTokensPerDay, b.SenderUSDPerDay), Agent: limit(b.AgentTokensPerDay, b.AgentUSDPerDay),
		Host: limit(b.HostTokensPerDay, b.HostUSDPerDay),
	}
}

// ReadUsage sums up what model calls have used, of a host that runs as of one that does not.
func ReadUsage(ctx context.Context, c *config.Config, by store.UsageKey, since time.Time) ([]gateway.UsageSum, error) {
	sums, err := sqlite.ReadUsage(ctx, c.Store.Dir, by, store.UsageFilter{Since: since})
	return gateway.UsageSums(sums), err
}

// ReadHeld sums up what senders hold of a host that does not run, so that no background process does. Without an engine that answers, sandboxes are not counted, and
// the error says why; what else is known is returned with it.
func ReadHeld(ctx context.Context, c *config.Config) (held []gateway.Held, err error) {
	r, err := sqlite.OpenReader(ctx, c.Store.Dir)
	if err != nil {
		return nil, err
	}
	holders, err := r.Holders(ctx)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	running, err := sandboxes.Count(ctx, c)
	return backend.Held(quota.Holdings{
		Senders: backend.Senders(holders), Measure: fleet.FoldersOf(c.Store.Dir).Size, Media: media.Owned(filepath.Join(c.Store.Dir, "media")), Sandboxes: running,
	}), err
}
