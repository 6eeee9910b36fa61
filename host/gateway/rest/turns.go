package rest

import (
	"context"
	"errors"
	"net/http"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/observe/explain"
	"github.com/flynnhost/flynn/host/store"
)

// turns explains what the host did with a message.
type turns struct {
	gateway.Explains
	conversations gateway.Conversations
}

func (t turns) register(r *registrar) {
	const subject = "Turns"
	type turn struct {
		ID string `path:"id" minLength:"1" maxLength:"256" doc:"The id of a turn, or message/N with the slash as %2F"`
	}
	add(r, Operation{ID: "explain-turn", Method: http.MethodGet, Path: "/turns/{id}", Subject: subject, Least: guest,
		Summary: "What the host did with a message, and why"},
		func(ctx context.Context, by gateway.Caller, in *turn) (gateway.TurnTrace, error) {
			trace, err := t.Explain(ctx, in.ID)
			return t.show(ctx, by, trace, err)
		})
	type place struct {
		Channel      string `query:"channel" maxLength:"256"`
		Conversation string `query:"conversation" maxLength:"256"`
	}
	add(r, Operation{ID: "explain-latest", Method: http.MethodGet, Path: "/turns/latest", Subject: subject, Least: guest,
		Summary: "The same for the latest message, of a channel, of a conversation or of all; members and guests name a conversation of theirs"},
		func(ctx context.Context, by gateway.Caller, in *place) (gateway.TurnTrace, error) {
			trace, err := t.ExplainLast(ctx, in.Channel, in.Conversation)
			return t.show(ctx, by, trace, err)
		})
}

// show returns a trace that was read. It refuses members and guests the trace of another sender, or of a conversation with others in it, as
// if there were none, and leaves out what only the operator may read.
func (t turns) show(ctx context.Context, by gateway.Caller, trace explain.Trace, err error) (gateway.TurnTrace, error) {
	if !by.Owner() {
		if err == nil {
			err = may(ctx, t.conversations, by, trace.Channel, trace.Conversation)
		}
		if err == nil && trace.Sender != by.Sender || errors.Is(err, store.ErrNotFound) {
			err = store.NotFound("there is no such turn of yours")
		}
		trace.Error = "" // the answer says it in words for people
	}
	if err != nil {
		return gateway.TurnTrace{}, err
	}
	return gateway.NewTurnTrace(trace), nil
}

// turnList lists what the host did with messages.
type turnList struct{ gateway.Turns }

func (t turnList) register(r *registrar) {
	type filter struct {
		Paging
		SinceTime
		Person  message.SenderKey `query:"person" maxLength:"1024" doc:"instance:platform-id"`
		Agent   string            `query:"agent" maxLength:"256"`
		Channel string            `query:"channel" maxLength:"256"`
		Outcome string            `query:"outcome" enum:"running,done,failed,stopped,dropped,stale"`
	}
	add(r, Operation{ID: "list-turns", Method: http.MethodGet, Path: "/turns", Subject: "Turns", Least: owner,
		Summary: "Turns, and messages that no turn took, latest first"},
		func(ctx context.Context, _ gateway.Caller, in *filter) (gateway.Page[explain.Listed], error) {
			f := turnlog.TurnFilter{Person: in.Person, Agent: in.Agent, Channel: in.Channel, State: in.Outcome, Since: in.Since, Limit: in.Limit}
			items, next, err := t.Turns.Turns(ctx, f, in.Cursor)
			if errors.Is(err, explain.ErrCursor) {
				err = gateway.BadRequest(err.Error())
			}
			return listOf(items, next, err)
		})
}
