package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/observe/explain"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

var _ gateway.Explains = backend{}

// Explain implements gateway.Explains.
func (b backend) Explain(ctx context.Context, id string) (explain.Trace, error) {
	return traceOf(ctx, b.h.store, id)
}

// ExplainLast implements gateway.Explains.
func (b backend) ExplainLast(ctx context.Context, channel, conversation string) (explain.Trace, error) {
	return lastTrace(ctx, b.h.store, channel, conversation)
}

// ExplainTurn makes the trace of a turn, or of a message by its number, from the store of a host that does not run.
func ExplainTurn(ctx context.Context, c *config.Config, id string) (explain.Trace, error) {
	return read(ctx, c, func(r *sqlite.Reader) (explain.Trace, error) { return traceOf(ctx, r, id) })
}

// ExplainLast makes the trace of the latest message of a channel's conversation; empty is any.
func ExplainLast(ctx context.Context, c *config.Config, channel, conversation string) (explain.Trace, error) {
	return read(ctx, c, func(r *sqlite.Reader) (explain.Trace, error) { return lastTrace(ctx, r, channel, conversation) })
}

// unknown is a store.ErrNotFound in words for people.
type unknown string

func (u unknown) Error() string { return string(u) }

// Is implements the interface of errors.Is.
func (u unknown) Is(target error) bool { return target == store.ErrNotFound }

func traceOf(ctx context.Context, trails store.Trails, id string) (explain.Trace, error) {
	trail, err := trails.Trail(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return explain.Trace{}, unknown(fmt.Sprintf("no turn %.64q is known: the ids of turns are in the log of flynn serve, in the list of approvals and "+
			"behind \"why\" on the web page; flynn explain --last shows the latest", id))
	}
	if err != nil {
		return explain.Trace{}, err
	}
	return explain.New(trail)
}

func lastTrace(ctx context.Context, trails store.Trails, channel, conversation string) (explain.Trace, error) {
	row, err := trails.LastMessage(ctx, channel, conversation)
	if errors.Is(err, store.ErrNotFound) {
		return explain.Trace{}, unknown("there is no message yet that this would be about; flynn explain --last alone shows the latest of all")
	}
	if err != nil {
		return explain.Trace{}, err
	}
	return traceOf(ctx, trails, store.MessageID(row.ID))
}
