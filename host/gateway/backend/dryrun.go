package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
)

// DryRuns decide about calls that nobody makes, by what is in force: the configuration, the policies, the grants, the kill switch and
// the state of the engine.
type DryRuns struct {
	Current func() InForce
	// Pin returns the generation and the policies that a turn would begin with now.
	Pin    func() (*agent.Generation, agent.Policies)
	Runner *agent.Runner
	Grants tool.Leases
}

var _ gateway.Judges = DryRuns{}

// Judge implements gateway.Judges.
func (d DryRuns) Judge(ctx context.Context, call gateway.Supposed) (gateway.Judgement, error) {
	m := supposed(call)
	if !slices.Contains(d.Current().Config.ChannelNames(), m.Channel) {
		return gateway.Judgement{}, fmt.Errorf("%w: no channel %.64q", store.ErrNotFound, m.Channel)
	}
	gen, policies := d.Pin()
	defer policies.Release()
	if set, ok := policies.(*policy.Set); ok {
		policies = withoutShadows{set}
	}
	j, err := d.Runner.Judge(ctx, gen, policies, m, call.Agent, call.Labels, model.ToolCall{ID: "judged", Name: call.Tool, Args: call.Args}, d.Grants)
	if errors.Is(err, agent.ErrNoAgent) {
		err = fmt.Errorf("%w: %w", store.ErrNotFound, err)
	}
	if err != nil {
		return gateway.Judgement{}, err
	}
	return decision(call, j, m.SenderKey(), gen.Admission.Refusal(m)), nil
}

// supposed is the message that a call would answer.
func supposed(c gateway.Supposed) message.Message {
	now := time.Now().UTC()
	m := message.Message{
		Channel: c.Channel, EventID: "judged", Text: c.Text, Addressed: true, SentAt: now, ReceivedAt: now,
		Conversation: message.Conversation{ID: c.Conversation, Kind: c.Kind, Parent: c.Parent},
		Sender:       message.Sender{ID: c.Sender, Account: c.Account, Roles: c.SenderRoles},
	}
	return m.Bounded()
}

// withoutShadows is a chain of policies without its shadow policies.
type withoutShadows struct{ *policy.Set }

// Tool implements agent.Policies.
func (w withoutShadows) Tool(ctx context.Context, f policy.ToolFacts) (policy.Restrictions, []policy.Record) {
	return w.Judge(ctx, f)
}

func decision(call gateway.Supposed, j agent.Judgement, sender, notAdmitted string) gateway.Judgement {
	v := j.Verdict
	out := gateway.Judgement{
		Tool: call.Tool, Agent: call.Agent, Session: j.Session, Sender: sender, Role: j.Role, NotAdmitted: notAdmitted, Labels: slices.Concat([]string{}, j.Labels),
		Args: v.Args, Action: string(v.Action), Where: v.Where, Sandbox: v.Sandbox, Elevated: v.Elevated, Reasons: slices.Concat([]string{}, v.Reasons),
		Refusal: v.Refusal, Policies: []gateway.PolicyAnswer{},
	}
	for _, r := range v.Records {
		out.Policies = append(out.Policies, gateway.PolicyAnswer{
			Name: r.Policy, Digest: r.Digest, Answer: r.Answer, Reason: r.Reason, Error: r.Error, Fuel: r.Fuel, Nanos: r.Took.Nanoseconds(),
		})
	}
	if j.Lease != nil {
		out.Lease = &gateway.Grant{Grant: *j.Lease, Open: true, Covers: approval.Covers(*j.Lease)}
	}
	return out
}
