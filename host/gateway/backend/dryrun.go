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

// DryRuns tries calls without running them, by the configuration, policies and grants in force, the kill switch and the state of the engine.
type DryRuns struct {
	Current func() InForce
	// Pin returns the generation and the policies with which a turn would start now.
	Pin    func() (*agent.Generation, agent.Policies)
	Runner *agent.Runner
	Grants tool.Leases
}

var _ gateway.DryRuns = DryRuns{}

// DryRun implements gateway.DryRuns.
func (d DryRuns) DryRun(ctx context.Context, call gateway.DryRunCall) (gateway.DryRunResult, error) {
	m := supposed(call)
	if !slices.Contains(d.Current().Config.ChannelNames(), m.Channel) {
		return gateway.DryRunResult{}, fmt.Errorf("%w: no channel %.64q", store.ErrNotFound, m.Channel)
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
		return gateway.DryRunResult{}, err
	}
	return decision(call, j, m.SenderKey(), gen.Admission.Refusal(m)), nil
}

// supposed is the message that a call would answer.
func supposed(c gateway.DryRunCall) message.Message {
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

// Route implements agent.Policies.
func (w withoutShadows) Route(ctx context.Context, f policy.RouteFacts) (policy.RouteAnswer, []policy.Record) {
	return w.DryRoute(ctx, f)
}

// Tool implements agent.Policies.
func (w withoutShadows) Tool(ctx context.Context, f policy.ToolFacts) (policy.Restrictions, []policy.Record) {
	return w.DryRun(ctx, f)
}

func decision(call gateway.DryRunCall, j agent.Judgement, sender message.SenderKey, notAdmitted string) gateway.DryRunResult {
	v := j.Decision
	out := gateway.DryRunResult{
		Tool: call.Tool, Agent: call.Agent, Session: j.Session, Sender: sender, Role: j.Role, NotAdmitted: notAdmitted, Labels: append([]string{}, j.Labels...),
		Args: v.Args, Action: string(v.Action), Where: v.Where, Sandbox: v.Sandbox, Elevated: v.Elevated, Reasons: append([]string{}, v.Reasons...),
		Refusal: v.Refusal, Policies: gateway.PolicyAnswers(v.Records),
	}
	if j.Lease != nil {
		out.Lease = &gateway.Grant{Grant: *j.Lease, Open: true, Covers: approval.Covers(*j.Lease)}
	}
	return out
}
