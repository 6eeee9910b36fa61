package gateway

import (
	"time"

	"github.com/flynnhost/flynn/host/model/budget"
)

// Budgets are the daily budgets, and what is left of them.
type Budgets struct {
	Day   string    `json:"day" doc:"Of the time zone"`
	Zone  string    `json:"zone"`
	Opens time.Time `json:"opens" doc:"When the budgets are whole again"`
	// Unpriced are the tiers without prices. Calls of them count tokens and no dollars.
	Unpriced []string   `json:"unpriced" doc:"Tiers without prices: their calls count tokens and no dollars"`
	Host     Budget     `json:"host"`
	Agents   []Budget   `json:"agents"`
	Turn     TurnBudget `json:"turn" doc:"What one turn may use"`
}

// TurnBudget bounds one turn; 0 is no limit.
type TurnBudget struct {
	Steps     int `json:"steps"`
	ToolCalls int `json:"tool_calls"`
	Tokens    int `json:"tokens"`
	Seconds   int `json:"seconds"`
}

// Budget is what somebody has used today. A limit and what is left of it are absent where there is no limit.
type Budget struct {
	Name        string   `json:"name,omitempty" doc:"The agent or sender"`
	Tokens      int64    `json:"tokens"`
	TokensLimit *int64   `json:"tokens_limit,omitempty"`
	TokensLeft  *int64   `json:"tokens_left,omitempty"`
	USD         *float64 `json:"usd" doc:"null: no price is known for what was used"`
	USDLimit    *float64 `json:"usd_limit,omitempty"`
	USDLeft     *float64 `json:"usd_left,omitempty"`
}

// NewBudget compares usage with a limit, 0 being none. unpriced says that there are calls that count no dollars.
func NewBudget(name string, used, limit budget.Amount, unpriced bool) Budget {
	b := Budget{Name: name, Tokens: used.Tokens, USD: dollars(used.Cost, unpriced && used.Tokens > 0)}
	if limit.Tokens > 0 {
		left := max(limit.Tokens-used.Tokens, 0)
		b.TokensLimit, b.TokensLeft = &limit.Tokens, &left
	}
	if limit.Cost > 0 {
		b.USDLimit, b.USDLeft = dollars(limit.Cost, false), dollars(max(limit.Cost-used.Cost, 0), false)
	}
	return b
}
