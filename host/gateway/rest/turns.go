package rest

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/gateway"
)

// turns explains what the host did with a message.
type turns struct{ gateway.Explains }

func (t turns) register(r *registrar) {
	const subject = "Turns"
	type turn struct {
		ID string `path:"id" minLength:"1" maxLength:"256" doc:"The id of a turn, or message/N with the slash as %2F"`
	}
	add(r, Operation{ID: "explain-turn", Method: http.MethodGet, Path: "/turns/{id}", Subject: subject, Least: owner, Summary: "What the host did with a message, and why"},
		func(ctx context.Context, _ gateway.Caller, in *turn) (gateway.TurnTrace, error) {
			trace, err := t.Explain(ctx, in.ID)
			return gateway.NewTurnTrace(trace), err
		})
	type place struct {
		Channel      string `query:"channel" maxLength:"256"`
		Conversation string `query:"conversation" maxLength:"256"`
	}
	add(r, Operation{ID: "explain-latest", Method: http.MethodGet, Path: "/turns/latest", Subject: subject, Least: owner, Summary: "The same for the latest message, of a channel, of a conversation or of all"},
		func(ctx context.Context, _ gateway.Caller, in *place) (gateway.TurnTrace, error) {
			trace, err := t.ExplainLast(ctx, in.Channel, in.Conversation)
			return gateway.NewTurnTrace(trace), err
		})
}
