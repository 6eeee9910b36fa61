package gateway

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/observe/explain"
)

// Explains explains what the host did with a message.
type Explains interface {
	// Explain returns the trace of a turn, or of a message by its store.MessageID; store.ErrNotFound if there is none.
	Explain(ctx context.Context, id string) (explain.Trace, error)
	// ExplainLast returns the trace of the latest message of a channel's conversation; an empty name stands for any.
	ExplainLast(ctx context.Context, channel, conversation string) (explain.Trace, error)
}

// Turns lists what the host did with messages.
type Turns interface {
	// Turns lists turns and the messages that no turn took, latest first, and the cursor of what follows; "" is the end.
	Turns(ctx context.Context, f turnlog.TurnFilter, cursor string) ([]explain.Listed, string, error)
}

// TurnTrace is a trace with the lines in which flynn explain and the page show it.
type TurnTrace struct {
	explain.Trace
	Title []string       `json:"title"`
	Lines []explain.Line `json:"lines"`
}

// NewTurnTrace returns a trace with its lines.
func NewTurnTrace(t explain.Trace) TurnTrace {
	title, lines := t.Lines()
	return TurnTrace{t, title, lines}
}
