package route

import (
	"context"
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
)

// Policies is the chain of route policies; policy.Set is one.
type Policies interface {
	// Route asks the policies in order; the first that does not abstain, or fails, decides.
	Route(ctx context.Context, f policy.RouteFacts) (policy.RouteAnswer, []policy.Record)
}

// Decision says which agent answers a message, and why.
type Decision struct {
	// Agent answers; empty means that nobody does.
	Agent string
	// Static is the rule of the table; its Agent is the candidate that the policies were told.
	Static Match
	// Policy decided, unless it is empty: then the table did.
	Policy string
	Reason string
	// Failed: the policy did not decide but fail. Agent is the one for its errors, or empty.
	Failed bool
}

// Dropped tells that a policy wants the message to be ignored.
func (d Decision) Dropped() bool { return d.Agent == "" && d.Policy != "" && !d.Failed }

// String is one line for people and logs.
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

// candidate is the agent that is asked for by name, or that of the rules and of what people chose.
func (t *Table) candidate(m message.Message, role string) (Match, bool) {
	if m.Agent != "" {
		return Match{Agent: m.Agent, Tier: TierAsked}, true
	}
	static, _ := t.Resolve(m.Channel, m.SenderKey())
	static = t.choice(static, role)
	return static, static.Agent != ""
}

// Decide routes a message: the table gives a candidate, the policies decide or abstain. It fills in Candidate, and
// Agents unless the caller has narrowed them. Policies may be nil. Everything that routes, explains or replays
// goes through here.
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
