package agent

import (
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/model/budget"
)

// TurnEnded is published when a turn has ended.
type TurnEnded struct {
	Turn, Agent string
	State       turnlog.TurnState
	Took        time.Duration
	// WithParent is true for a delegated turn that ends within a call of its parent's.
	WithParent bool
	// Released is true for a turn that ended without an answer and left its messages to the next one.
	Released bool
}

// BudgetExceeded is published for each model call that a daily budget refused.
type BudgetExceeded struct{ Level budget.Level }
