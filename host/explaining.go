package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/explain"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// Explain implements gateway.Explains.
func (b backend) Explain(ctx context.Context, id string) (explain.Trace, error) {
	trail, err := b.h.store.Trail(ctx, id)
	if err != nil {
		return explain.Trace{}, err
	}
	return explain.New(trail)
}

var _ gateway.Explains = backend{}

// ExplainTurn makes the trace of a turn, or of a message by its number, of a host that runs as of one that does not.
func ExplainTurn(ctx context.Context, c *config.Config, id string) (explain.Trace, error) {
	return explainFrom(ctx, c, func(*sqlite.Reader) (string, error) { return id, nil })
}

// ExplainLast makes the trace of the latest message of a channel's conversation; empty is any.
func ExplainLast(ctx context.Context, c *config.Config, channel, conversation string) (explain.Trace, error) {
	return explainFrom(ctx, c, func(r *sqlite.Reader) (string, error) {
		row, err := r.LastMessage(ctx, channel, conversation)
		if errors.Is(err, store.ErrNotFound) {
			return "", errors.New("there is no message yet that this would be about; flynn explain --last alone shows the latest of all")
		}
		return store.MessageID(row.ID), err
	})
}

func explainFrom(ctx context.Context, c *config.Config, which func(*sqlite.Reader) (string, error)) (t explain.Trace, err error) {
	r, err := sqlite.OpenReader(ctx, c.Store.Dir)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	id, err := which(r)
	if err != nil {
		return t, err
	}
	trail, err := r.Trail(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return t, fmt.Errorf("no turn %.64q is known: the ids of turns are in the log of flynn serve, in the list of approvals and behind \"why\" on "+
			"the web page; flynn explain --last shows the latest", id)
	}
	if err != nil {
		return t, err
	}
	return explain.New(trail)
}
