package rest

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/gateway"
)

// agents shows the agents.
type agents struct{ gateway.Agents }

func (a agents) register(r *registrar) {
	const subject = "Agents"
	add(r, Operation{ID: "list-agents", Method: http.MethodGet, Path: "/agents", Subject: subject, Least: owner, Summary: "All agents"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.AgentSummary, error) {
			return orEmpty(a.Agents.Agents(ctx))
		})
	add(r, Operation{ID: "get-agent", Method: http.MethodGet, Path: "/agents/{name}", Subject: subject, Least: owner,
		Summary: "An agent with its tools and where they run, its sandbox, limits, delegates and budget"},
		func(ctx context.Context, _ gateway.Caller, in *ByName) (gateway.AgentDetail, error) {
			return a.Agent(ctx, in.Name)
		})
}

// routing shows and explains which agent answers whom.
type routing struct{ gateway.Routing }

func (a routing) register(r *registrar) {
	const subject = "Agents"
	add(r, Operation{ID: "get-routing", Method: http.MethodGet, Path: "/routing", Subject: subject, Least: owner,
		Summary: "The rules in the order in which they are tried"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) (gateway.RoutingTable, error) {
			return a.Routing.Routing(ctx)
		})
	type try struct{ Body gateway.RouteTry }
	add(r, Operation{ID: "try-route", Method: http.MethodPost, Path: "/routing/try", Subject: subject, Least: owner,
		Summary: "Explain who would answer a message now, and why; nothing is sent or stored"},
		func(ctx context.Context, _ gateway.Caller, in *try) (gateway.RouteExplanation, error) {
			return a.TryRoute(ctx, in.Body)
		})
}
