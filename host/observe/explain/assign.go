package explain

import (
	"bytes"
	"strings"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// decisions assigns the decisions to their calls. The log has the policies' answers about a call before the row with the host's decision,
// and these rows are in the order of the calls.
func (b *builder) decisions() {
	b.trace.Route = []Decision{}
	var policies []Decision
	var last *ToolCall
	for _, d := range b.trail.Decisions {
		one := decisionOf(d)
		switch d.Kind {
		case "tool":
			policies = append(policies, one)
		case "enforce":
			switch c := b.undecided(d); {
			case c != nil:
				c.Policies, c.Host, last = policies, &one, c
			case last != nil:
				last.Within = append(append(last.Within, policies...), one)
			default:
				b.trace.Decisions = append(append(b.trace.Decisions, policies...), one)
			}
			policies = nil
		default:
			b.trace.Route = append(b.trace.Route, one)
		}
	}
	b.trace.Decisions = append(b.trace.Decisions, policies...)
}

// undecided returns the first call of the row's tool that has no decision yet.
func (b *builder) undecided(d journal.Decision) *ToolCall {
	for _, c := range b.calls {
		if c.Host == nil && strings.HasPrefix(d.Reason, c.Tool+": ") {
			return c
		}
	}
	return nil
}

func decisionOf(d journal.Decision) Decision {
	return Decision{
		ID: d.ID, At: d.At, Kind: d.Kind, By: d.Policy, Answer: d.Answer, Reason: short(d.Reason), Error: short(d.Error), Digest: d.Digest,
		Fuel: d.Fuel, Nanos: d.Nanos,
	}
}

// approvals assigns requests to the calls that they are bound to, by tool and arguments. A call may have several, as its circumstances may
// change while a person thinks.
func (b *builder) approvals() {
	for _, a := range b.trail.Approvals {
		one := Approval{
			ID: a.ID, Tool: a.Tool, State: string(a.State), Scope: string(a.Scope), Reasons: shortAll(a.Reasons), Decider: a.Decider, Created: a.Created,
			Decided: a.Decided, Expires: a.Expires,
		}
		if c := b.asking(a); c != nil {
			c.Approvals = append(c.Approvals, one)
		} else {
			b.trace.Approvals = append(b.trace.Approvals, one)
		}
	}
}

func (b *builder) asking(a consent.Approval) *ToolCall {
	args := shortArgs(a.Args)
	for _, c := range b.calls {
		if c.Tool == a.Tool && bytes.Equal(c.Args, args) && (c.Ended.IsZero() || !c.Ended.Before(a.Created)) {
			return c
		}
	}
	return nil
}

// audit assigns uses of permissions to the call of their tool that was under way.
func (b *builder) audit() {
	for _, r := range b.trail.Audit {
		one := Audit{At: r.At, Kind: r.Kind, Subject: r.Subject, Actor: r.Actor, Tool: r.Tool, Detail: short(r.Detail)}
		if c := b.using(r); c != nil {
			c.Audit = append(c.Audit, one)
		} else {
			b.trace.Audit = append(b.trace.Audit, one)
		}
	}
}

func (b *builder) using(r consent.AuditRow) *ToolCall {
	for _, c := range b.calls {
		if c.Tool == r.Tool && (c.Ended.IsZero() || !c.Ended.Before(r.At)) {
			return c
		}
	}
	return nil
}

func (b *builder) children() {
	for _, child := range b.trail.Children {
		for _, c := range b.calls {
			if c.ID == child.ParentCall {
				c.Child = child.ID
			}
		}
	}
}

// usage assigns each attempt to the step that its answer became.
func (b *builder) usage() {
	bySeq := map[int]*Step{}
	for i := range b.trace.Steps {
		bySeq[b.trace.Steps[i].Seq] = &b.trace.Steps[i]
	}
	for _, u := range b.trail.Usage {
		one := Attempt{
			At: u.At, Task: u.Task, Tier: u.Tier, Provider: u.Provider, Model: u.Model, Number: u.Attempt, Failure: u.Failure, CostUSD: usd(u.Cost),
			Tokens: Tokens{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Estimated: u.Estimated},
		}
		b.trace.Tokens += u.Tokens()
		b.trace.CostUSD += one.CostUSD
		if s, ok := bySeq[u.Step]; ok && s.Task == u.Task {
			s.Attempts = append(s.Attempts, one)
		} else {
			b.trace.Attempts = append(b.trace.Attempts, one)
		}
	}
}

func (b *builder) deliveries() {
	b.trace.Deliveries = []Delivery{}
	for _, r := range b.trail.Replies {
		b.trace.Deliveries = append(b.trace.Deliveries, Delivery{
			Key: r.Reply.Key, Channel: r.Reply.Channel, State: string(r.State), Text: short(r.Reply.Text), Attempts: r.Attempts, Parts: len(r.Parts),
			Delivered: r.Part, Note: short(r.Note), NextTry: r.NextTry, PlatformIDs: r.PlatformIDs,
		})
	}
}

func usd(billionths int64) float64 { return float64(billionths) / 1e9 }

func tokensOf(u model.Usage) Tokens {
	return Tokens{
		Input: int64(u.Input), Output: int64(u.Output), CacheRead: int64(u.CacheRead), CacheWrite: int64(u.CacheWrite), Estimated: u.Estimated,
	}
}
