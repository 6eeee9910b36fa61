package host

import (
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model/budget"
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
