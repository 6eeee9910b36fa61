package explain

import (
	"context"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/store"
)

// Reader makes traces of the records of a store.
type Reader struct{ Store turnlog.Trails }

// Explain returns the trace of a turn, or of a message by its mailbox.MessageID. The error is store.ErrNotFound if there is none.
func (r Reader) Explain(ctx context.Context, id string) (Trace, error) {
	trail, err := r.Store.Trail(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return Trace{}, store.NotFound(fmt.Sprintf("no turn %.64q: the ids of turns are in the log of flynn serve, in the list of approvals and "+
			"behind \"why\" on the web page; flynn explain --last shows the latest", id))
	}
	if err != nil {
		return Trace{}, err
	}
	return New(trail)
}

// ExplainLast returns the trace of the latest message of a channel's conversation; empty is any.
func (r Reader) ExplainLast(ctx context.Context, channel, conversation string) (Trace, error) {
	row, err := r.Store.LastMessage(ctx, channel, conversation)
	if errors.Is(err, store.ErrNotFound) {
		return Trace{}, store.NotFound("there is no such message; flynn explain --last without further flags shows the latest of all")
	}
	if err != nil {
		return Trace{}, err
	}
	return r.Explain(ctx, mailbox.MessageID(row.ID))
}
