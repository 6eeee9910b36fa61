package gatewaytest

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/observe/explain"
	"github.com/flynnhost/flynn/host/store"
)

// Traces gives every turn a trace, in which a call was denied for reason. Without it no turn has one.
func (b *Backend) Traces(reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reason = reason
}

// Explain implements gateway.Explains.
func (b *Backend) Explain(_ context.Context, id string) (explain.Trace, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reason == "" {
		return explain.Trace{}, store.ErrNotFound
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return explain.Trace{
		ID: id, Agent: "main", State: "done", Started: at, Ended: at.Add(time.Second),
		Steps: []explain.Step{{Seq: 1, At: at, Model: "m", Calls: []explain.ToolCall{{
			ID: "c1", Tool: "shell.exec", Outcome: "deny", Reasons: []string{b.reason}, Ended: at, IsError: true, Result: "refused",
		}}}},
	}, nil
}

// ExplainLast implements gateway.Explains.
func (b *Backend) ExplainLast(ctx context.Context, channel, conversation string) (explain.Trace, error) {
	return b.Explain(ctx, "last of "+channel+":"+conversation)
}
