package host

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
	"github.com/flynnhost/flynn/host/tool/approval"
)

var _ gateway.Judges = backend{}

// Judge implements gateway.Judges with what is in force: the configuration, the policies, the leases, the kill switch and the engine.
func (b backend) Judge(ctx context.Context, call gateway.Supposed) (gateway.Judgement, error) {
	m := supposed(call)
	if c := b.h.current.Load().config; !slices.Contains(c.ChannelNames(), m.Channel) {
		return gateway.Judgement{}, fmt.Errorf("%w: no channel %.64q", store.ErrNotFound, m.Channel)
	}
	gen, policies := b.h.inForce()
	defer policies.Release()
	if set, ok := policies.(*policy.Set); ok {
		policies = judging{set}
	}
	j, err := b.h.runner.Judge(ctx, gen, policies, m, call.Agent, call.Labels, model.ToolCall{ID: "judged", Name: call.Tool, Args: call.Args}, b.h.desk)
	if errors.Is(err, agent.ErrNoAgent) {
		err = fmt.Errorf("%w: %w", store.ErrNotFound, err)
	}
	if err != nil {
		return gateway.Judgement{}, err
	}
	return shownJudgement(call, j, m.SenderKey(), gen.Admits(m)), nil
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

// judging is a chain of policies whose shadows hear nothing of it.
type judging struct{ *policy.Set }

// Tool implements agent.Policies.
func (j judging) Tool(ctx context.Context, f policy.ToolFacts) (policy.Restrictions, []policy.Record) {
	return j.Judge(ctx, f)
}

func shownJudgement(call gateway.Supposed, j agent.Judgement, sender, notAdmitted string) gateway.Judgement {
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
