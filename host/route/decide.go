package route

import (
	"context"
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
)

// Policies is a chain of route policies; policy.Set implements it.
type Policies interface {
	// Route asks the policies in order until one decides or fails.
	Route(ctx context.Context, f policy.RouteFacts) (policy.RouteAnswer, []policy.Record)
}

// Decision says which agent answers a message, and why.
type Decision struct {
	// Agent is the agent that answers, or "" for none.
	Agent string
	// Static is the matched rule of the table. Its Agent is the candidate that the policies saw.
	Static Match
	// Policy is the policy that decided, or "" if the table did.
	Policy string
	Reason string
	// Failed means that the policy failed. Agent is then the configured agent for errors, or "".
	Failed bool
}

// Dropped reports whether a policy decided that nobody answers.
func (d Decision) Dropped() bool { return d.Agent == "" && d.Policy != "" && !d.Failed }

// String returns a line for people and logs.
func (d Decision) String() string {
	who := "nobody answers"
	if d.Agent != "" {
		who = "agent " + d.Agent
	}
	switch {
	case d.Policy == "" && d.Static.Tier == "":
		return who + ": no rule"
	case d.Policy == "" && d.Static.Tier == TierAsked:
		return who + ": asked for by name"
	case d.Policy == "" && d.Static.Tier == TierChosen:
		return who + ": chosen in chat"
	case d.Policy == "":
		return fmt.Sprintf("%s: %s rule %s", who, d.Static.Tier, d.Static.Rule)
	case d.Failed:
		return fmt.Sprintf("%s: policy %s failed: %s", who, d.Policy, d.Reason)
	case d.Reason == "":
		return fmt.Sprintf("%s: policy %s", who, d.Policy)
	}
	return fmt.Sprintf("%s: policy %s: %s", who, d.Policy, d.Reason)
}

// candidate returns the agent asked for by name, or else that of the rules and of people's choice.
func (t *Table) candidate(m message.Message, role string) (Match, bool) {
	if m.Agent != "" {
		return Match{Agent: m.Agent, Tier: TierAsked}, true
	}
	static, _ := t.Resolve(m.Channel, m.SenderKey())
	static = t.choice(static, role)
	return static, static.Agent != ""
}

// Decide routes a message: the table gives a candidate, and the policies decide or abstain. It sets Candidate, and Agents unless the
// caller has narrowed them. Policies may be nil. Live routing, explanations and replays all use this function.
func Decide(ctx context.Context, table *Table, policies Policies, facts policy.RouteFacts) (Decision, []policy.Record) {
	if facts.Agents == nil {
		facts.Agents = table.Agents()
	}
	var d Decision
	if static, ok := table.candidate(facts.Message, facts.Role); ok && slices.Contains(facts.Agents, static.Agent) {
		d.Static, d.Agent, facts.Candidate = static, static.Agent, static.Agent
	}
	if policies == nil {
		return d, nil
	}
	answer, records := policies.Route(ctx, facts)
	if !answer.Decided {
		return d, records
	}
	d.Agent, d.Policy, d.Reason, d.Failed = answer.Agent, answer.Policy, answer.Reason, answer.Failed
	if d.Agent != "" && !slices.Contains(facts.Agents, d.Agent) {
		d.Reason = fmt.Sprintf("it chose the agent %q, which may not be chosen here", d.Agent)
		d.Agent, d.Failed = "", true
	}
	return d, records
}
