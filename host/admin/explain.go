package admin

import (
	"context"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/observe/explain"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// Explain returns the trace of a turn, or of a message by its number. A host may be running.
func Explain(ctx context.Context, c *config.Config, id string) (explain.Trace, error) {
	return read(ctx, c, func(r *sqlstore.Reader) (explain.Trace, error) { return explain.Reader{Store: r}.Explain(ctx, id) })
}

// ExplainLast returns the trace of the latest message of a channel's conversation; an empty argument matches any. A host may be running.
func ExplainLast(ctx context.Context, c *config.Config, channel, conversation string) (explain.Trace, error) {
	return read(ctx, c, func(r *sqlstore.Reader) (explain.Trace, error) {
		return explain.Reader{Store: r}.ExplainLast(ctx, channel, conversation)
	})
}
