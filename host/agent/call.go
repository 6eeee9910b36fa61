package agent

import (
	"context"
	"encoding/json"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// caller carries out the tool calls of a turn: it has each admitted, records its start, has it performed and records its result. It is
// used only on the turn's goroutine.
type caller struct {
	*recorder
	*publisher
	*identity
	*bounds
	performer *performer
	approver  approver
	prompts   prompts
	underWay  []string // ids of the calls that run side by side
}

// prompts shows requests for approval; *turn implements it.
type prompts interface {
	// asked shows a request, also to the senders of messages that wait behind the turn. Calling answered removes it.
	asked(ctx context.Context, a consent.Approval) (answered func())
	// withdraw withdraws the requests of a call that needs no decision any more.
	withdraw(ctx context.Context, requests []string)
}

func (t *turn) newCaller() *caller {
	c := &caller{
		recorder: t.recorder, publisher: t.publisher, identity: t.identity, bounds: t.bounds, performer: t.newPerformer(),
		approver: approver{t.recorder, t.bounds, t.cfg.Approvals, t.slots}, prompts: t,
	}
	c.performer.helper = c.helper
	return c
}

// run carries out the first of the calls, and in parallel those after it that may run beside it.
func (l *caller) run(ctx context.Context, calls []model.ToolCall) error {
	if len(calls) > 1 && l.readOnly(calls[0]) && l.readOnly(calls[1]) {
		if asks, err := l.inParallel(ctx); !asks || err != nil {
			return err
		}
	}
	return l.call(ctx, calls[0])
}

// call admits one call and runs it.
func (l *caller) call(ctx context.Context, c model.ToolCall) error {
	l.announce(c)
	noticed, stop := l.performer.noticed(ctx, c, new(waiting))
	defer stop()
	v, err := l.admit(noticed, l.subject(noticed), c, l.approver)
	if err != nil {
		return err
	}
	if ctx.Err() != nil && !ended(ctx) {
		return ctx.Err() // an interrupted policy denies; the next process asks again
	}
	start := l.judged(c, v)
	if v.Action != tool.Run {
		l.result(transcript.ToolResult{ToolStart: start, Result: l.performer.refused(ctx, v)})
		return nil
	}
	l.step(start)
	if err := l.commit(ctx); err != nil {
		return err
	}
	res := l.performer.perform(ctx, v, c, l.performer.toolCall(v, c))
	if ctx.Err() != nil && !ended(ctx) {
		return ctx.Err() // the start is committed; the next process reports the call as interrupted
	}
	l.result(transcript.ToolResult{ToolStart: start, Result: res})
	return l.commitSoon(ctx)
}

// announce shows a call before it is decided about.
func (l *caller) announce(c model.ToolCall) {
	l.publish(message.Event{Kind: message.ToolCall, Call: c.ID, Tool: c.Name, Args: validJSON(c.Args)})
}

// judged shows the decision about a call.
func (l *caller) judged(c model.ToolCall, v tool.Decision) transcript.ToolStart {
	start := newToolStart(c, v)
	l.publishDecision(start)
	return start
}

func (l *caller) publishDecision(s transcript.ToolStart) {
	l.publish(message.Event{
		Kind: message.ToolDecision, Call: s.Call, Tool: s.Tool, Args: s.Args, Decision: s.Decision, Where: s.Where, Reasons: s.Reasons,
	})
}

// admit has a call admitted, which may ask a person, and records the decisions of the policies.
func (l *caller) admit(ctx context.Context, s tool.Subject, c model.ToolCall, asked tool.Approver) (tool.Decision, error) {
	var requests []string
	answered := func() {}
	v, err := l.enforcer().Admit(ctx, s, c, asked, func(v tool.Decision, a consent.Approval) {
		requests = append(requests, a.ID)
		l.judged(c, v)
		l.publish(message.Event{
			Kind: message.ToolApproval, Call: c.ID, Tool: c.Name, Args: v.Args, Where: v.Where, Reasons: v.Reasons, Approval: a.ID,
		})
		answered = l.prompts.asked(ctx, a)
	})
	answered()
	l.prompts.withdraw(ctx, requests)
	if err != nil {
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
		return v, err
	}
	l.decided(c, v)
	return v, nil
}

func newToolStart(c model.ToolCall, v tool.Decision) transcript.ToolStart {
	word := string(v.Action)
	if v.Action == tool.Run && v.Sandbox {
		word = "run_in_sandbox"
	}
	return transcript.ToolStart{Call: c.ID, Tool: c.Name, Args: v.Args, Decision: word, Where: v.Where, Reasons: v.Reasons}
}

// result records the result of a call and shows it.
func (l *caller) result(r transcript.ToolResult) {
	l.step(r)
	l.violated(r)
	l.came(r)
}

// came shows the result of a call and adds its labels to the session.
func (l *caller) came(r transcript.ToolResult) {
	l.session.label(r.Result.Labels)
	l.publish(message.Event{
		Kind: message.ToolResult, Call: r.Call, Tool: r.Tool, Text: r.Result.Text, IsError: r.Result.IsError, Where: r.Where, Decision: r.Decision,
	})
}

// approver asks people to approve the calls of a turn.
type approver struct {
	*recorder
	bounds    *bounds
	approvals Approvals
	slots     chan struct{} // of the running turns
}

// Request commits the model's answer with the call before anybody is asked, so that the request survives a crash together with its
// turn.
func (p approver) Request(ctx context.Context, ask approval.Ask) (consent.Approval, error) {
	if err := p.commit(ctx); err != nil {
		return consent.Approval{}, err
	}
	return p.approvals.Request(ctx, ask)
}

// Wait frees the turn's slot and stops its clock while a person decides.
func (p approver) Wait(ctx context.Context, id string) (granted bool, decider string, err error) {
	<-p.slots
	resume := p.bounds.pause()
	defer func() {
		p.slots <- struct{}{}
		resume()
	}()
	return p.approvals.Wait(ctx, id)
}

// Consume uses up a grant.
func (p approver) Consume(ctx context.Context, id string, b approval.Binding) error {
	return p.approvals.Consume(ctx, id, b)
}

// Use uses a lease once.
func (p approver) Use(ctx context.Context, ask approval.Ask) (consent.Grant, bool, error) {
	return p.approvals.Use(ctx, ask)
}

// validJSON returns the arguments that a model wrote, or nil if they are not JSON. Admit reports the error.
func validJSON(args json.RawMessage) json.RawMessage {
	if !json.Valid(args) {
		return nil
	}
	return args
}
