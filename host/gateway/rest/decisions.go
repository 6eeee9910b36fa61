package rest

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy/journal"
)

// decisions shows what was decided.
type decisions struct{ gateway.Decisions }

func listOf[T any](items []T, next string, err error) (gateway.Page[T], error) {
	items, err = orEmpty(items, err)
	return gateway.Page[T]{Items: items, Next: next}, err
}

// RecordedFilter chooses recorded decisions.
type RecordedFilter struct {
	SinceTime
	Until        time.Time `query:"until" doc:"The first moment that does not belong"`
	ID           int64     `query:"id" minimum:"0" doc:"Only this one"`
	Policy       string    `query:"policy" maxLength:"256"`
	Kind         string    `query:"kind" maxLength:"64"`
	Limit        int       `query:"limit" minimum:"0" doc:"At most so many; 0 is no bound"`
	WithoutCalls bool      `query:"without_calls" doc:"Leave out what the policies asked the host, which takes the longest"`
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
	export(r, Operation{ID: "export-decisions", Method: http.MethodGet, Path: "/decisions/export", Subject: subject, Least: owner,
		Summary: "Decisions as they are recorded, oldest first, one in a line of JSON: what a replay needs"}, "application/jsonl", "flynn-decisions.jsonl",
		func(ctx context.Context, _ gateway.Caller, in *RecordedFilter, w io.Writer) error {
			return d.ExportDecisions(ctx, journal.DecisionFilter{
				ID: in.ID, Policy: in.Policy, Kind: in.Kind, Since: in.Since, Until: in.Until, Limit: in.Limit, WithoutCalls: in.WithoutCalls,
			}, w)
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
