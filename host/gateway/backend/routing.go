package backend

import (
	"context"
	"slices"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/route"
)

// Routing is the routing of the configuration and the policies in force.
type Routing struct {
	Current func() InForce
	// Pin returns the generation and the policies with which a turn would start now.
	Pin    func() (*agent.Generation, agent.Policies)
	Runner *agent.Runner
	// Judge decides whether a message is admitted, apart from rates, and says why it is not.
	Judge    func(m message.Message) (decision, why string)
	Policies Policies
}

var _ gateway.Routing = Routing{}

// Routing implements gateway.Routing.
func (r Routing) Routing(ctx context.Context) (gateway.RoutingTable, error) {
	c := r.Current().Config
	rules, findings := route.Rules(c)
	out := gateway.RoutingTable{
		Rules: []gateway.RouteRule{}, Findings: append([]route.Finding{}, findings...), Choices: []gateway.RouteChoice{}, Policies: []string{},
		Channels: c.ChannelNames(),
	}
	for _, m := range rules {
		out.Rules = append(out.Rules, gateway.RouteRule{Tier: m.Tier, Rule: m.Rule, Agent: m.Agent, Line: m.Line})
	}
	for _, name := range slices.Sorted(slices.Values(c.Routing.Selectable)) {
		out.Choices = append(out.Choices, gateway.RouteChoice{Agent: name, Least: c.Agents[name].SelectableBy})
	}
	for _, p := range r.Policies.statuses(ctx) {
		if slices.Contains(p.Kinds, policy.KindRoute) && !p.Shadow {
			out.Policies = append(out.Policies, p.Name)
		}
	}
	return out, nil
}

// TryRoute implements gateway.Routing.
func (r Routing) TryRoute(ctx context.Context, t gateway.RouteTry) (gateway.RouteExplanation, error) {
	c := r.Current().Config
	m, err := t.Message(c.ChannelNames())
	if err != nil {
		return gateway.RouteExplanation{}, err
	}
	gen, policies := r.Pin()
	defer policies.Release()
	if set, ok := policies.(*policy.Set); ok {
		policies = withoutShadows{set}
	}
	suppose := agent.Supposed{Agent: t.Chosen}
	if t.Session != nil {
		facts := t.Session.Facts()
		suppose.Session = &facts
	}
	d, records, err := r.Runner.JudgeRoute(ctx, gen, policies, m, suppose)
	if err != nil {
		return gateway.RouteExplanation{}, err
	}
	e := gateway.NewRouteExplanation(c.Path, m, gen.Roles, d, records)
	e.Admission, e.AdmissionWhy = r.Judge(m)
	return e, nil
}
