package rest

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

// decisions shows what was decided.
type decisions struct{ gateway.Decisions }

func listOf[T any](items []T, next string, err error) (gateway.Page[T], error) {
	items, err = orEmpty(items, err)
	return gateway.Page[T]{Items: items, Next: next}, err
}

func (d decisions) register(r *registrar) {
	const subject = "Decisions"
	type filter struct {
		Paging
		SinceTime
		Policy  string            `query:"policy" maxLength:"256" doc:"The name of a policy, table or host"`
		Kind    string            `query:"kind" maxLength:"64" doc:"route_table, route, tool, enforce, ..."`
		Agent   string            `query:"agent" maxLength:"256"`
		Tool    string            `query:"tool" maxLength:"256"`
		Person  message.SenderKey `query:"person" maxLength:"1024" doc:"instance:platform-id"`
		Outcome string            `query:"outcome" maxLength:"64" doc:"A word of the answer, such as deny, or failed"`
	}
	add(r, Operation{ID: "list-decisions", Method: http.MethodGet, Path: "/decisions", Subject: subject, Least: owner,
		Summary: "What was decided about messages and tool calls, latest first; a part may be short, or empty, and have a next one"},
		func(ctx context.Context, _ gateway.Caller, in *filter) (gateway.Page[gateway.Decision], error) {
			return listOf(d.Decisions.Decisions(ctx, gateway.DecisionQuery{
				Policy: in.Policy, Kind: in.Kind, Agent: in.Agent, Tool: in.Tool, Person: in.Person, Outcome: in.Outcome,
				Since: in.Since, Cursor: in.Cursor, Limit: in.Limit,
			}))
		})
	type one struct {
		ID int64 `path:"id" minimum:"1"`
	}
	add(r, Operation{ID: "get-decision", Method: http.MethodGet, Path: "/decisions/{id}", Subject: subject, Least: owner,
		Summary: "One decision with the facts, arguments and answers that it was made of, as they are recorded"},
		func(ctx context.Context, _ gateway.Caller, in *one) (gateway.DecisionDetail, error) {
			return d.Decision(ctx, in.ID)
		})
}
