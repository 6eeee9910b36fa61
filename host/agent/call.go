package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// runCalls brings every call of an answer to a result: those that only look side by side, all others one after the other. A call
// that an earlier process had started is not run again: its result says that it was interrupted.
func (t *turn) runCalls(ctx context.Context, n int) error {
	for calls := t.steps.entries[n].answer.Message.Calls; len(calls) > 0; {
		if looks := t.lookers(n, calls); len(looks) > 1 {
			settled, err := t.sideBySide(ctx, looks)
			if err != nil {
				return err
			}
			if calls = calls[settled:]; settled > 0 {
				continue
			}
		}
		if err := t.callOnce(ctx, n, calls[0]); err != nil {
			return err
		}
		calls = calls[1:]
	}
	if len(t.pending.Steps) > 0 {
		return t.commitSoon(ctx)
	}
	return nil
}

// callOnce brings one call to a result, unless it has one.
func (t *turn) callOnce(ctx context.Context, n int, c model.ToolCall) error {
	e := &t.steps.entries[n]
	if _, done := e.results[c.ID]; done {
		return nil
	}
	if start, started := e.started[c.ID]; started {
		return t.pickUp(ctx, start)
	}
	return t.call(ctx, c)
}

func (t *turn) interrupted(start ToolStart) {
	t.result(ToolResult{ToolStart: start, Result: tool.Result{Text: interruptedText, IsError: true}, Interrupted: true})
}

// call decides about one call and runs it if it may run.
func (t *turn) call(ctx context.Context, c model.ToolCall) error {
	if err := t.permitted(ctx); err != nil {
		return err
	}
	t.announce(c)
	v, err := t.admit(ctx, c)
	if err != nil {
		return err
	}
	if ctx.Err() != nil && !ended(ctx) {
		return ctx.Err() // policies that are cut off deny; the next process asks them again
	}
	start := t.judged(c, v)
	if v.Action != tool.Run {
		t.result(ToolResult{ToolStart: start, Result: t.refused(ctx, v)})
		return nil
	}
	t.step(turnlog.StepToolStart, start)
	if err := t.commit(ctx); err != nil {
		return err
	}
	res := t.execute(ctx, v, c)
	if ctx.Err() != nil && !ended(ctx) {
		return ctx.Err() // the start is committed; the next process says that it was interrupted
	}
	t.result(ToolResult{ToolStart: start, Result: res})
	return t.commitSoon(ctx)
}

// announce shows a call before anything is decided about it.
func (t *turn) announce(c model.ToolCall) {
	t.publish(message.Event{Kind: message.ToolCall, Call: c.ID, Tool: c.Name, Args: validJSON(c.Args)})
}

// judged counts a call, whatever was decided about it, and shows the decision.
func (t *turn) judged(c model.ToolCall, v tool.Verdict) ToolStart {
	t.called(1)
	start := newToolStart(c, v)
	t.publishVerdict(start)
	return start
}

// refused is the result of a call that may not run.
func (t *turn) refused(ctx context.Context, v tool.Verdict) tool.Result {
	return t.cfg.Tools.Run(ctx, v, tool.Call{})
}

// permitted checks the limits of the turn before a call.
func (t *turn) permitted(ctx context.Context) error {
	if err := t.within(ctx); err != nil {
		return err
	}
	if t.calls >= t.gen.Limits.ToolCalls {
		return plainError(fmt.Sprintf("the turn used its %d tool calls", t.gen.Limits.ToolCalls))
	}
	return nil
}

// enforcer is the one that decides for the turn.
func (t *turn) enforcer() *tool.Enforcer {
	enforcer, err := tool.NewEnforcer(tool.EnforcerConfig{
		Registry: cmp.Or(t.agent.Registry, t.gen.Registry), Policies: t.policies, Stopped: t.cfg.Stopped, Elevated: t.recordElevated(), Now: t.cfg.Now, Log: t.cfg.Log,
	})
	if err != nil { // a generation without a registry; it is never made
		panic(err)
	}
	return enforcer
}

// admit asks the one function that decides, which asks a person where one has to agree, and logs what it said.
func (t *turn) admit(ctx context.Context, c model.ToolCall) (tool.Verdict, error) {
	return t.admitAs(ctx, t.subject(), c, people{t})
}

func (t *turn) admitAs(ctx context.Context, s tool.Subject, c model.ToolCall, asked tool.Approver) (tool.Verdict, error) {
	var requests []string
	answered := func() {}
	v, err := t.enforcer().Admit(ctx, s, c, asked, func(v tool.Verdict, a consent.Approval) {
		requests = append(requests, a.ID)
		start := newToolStart(c, v)
		t.publishVerdict(start)
		t.publish(message.Event{
			Kind: message.ToolApproval, Call: c.ID, Tool: c.Name, Args: v.Args, Where: v.Where, Reasons: v.Reasons, Approval: a.ID,
		})
		t.cfg.Notices.Asked(ctx, t.row, answers(t.origin), a)
		answered = t.asks(a)
	})
	answered()
	t.withdraw(ctx, requests)
	if err != nil {
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
		return v, err
	}
	t.decided(c, v)
	return v, nil
}

// withdraw ends the requests of a call about which nobody has to decide any more. Those that a host which goes down leaves open are
// taken up by the next one, with their turn.
func (t *turn) withdraw(ctx context.Context, requests []string) {
	for _, id := range requests {
		if t.host.Err() != nil {
			return
		}
		if err := t.cfg.Approvals.Withdraw(context.WithoutCancel(ctx), id); err != nil {
			t.cfg.Log.Error("withdraw a request for approval", "turn", t.row.ID, "id", id, "error", err)
		}
	}
}

// withdrawOwn ends the requests that an earlier process left to the turn and that it ends without having taken up.
func (r *Runner) withdrawOwn(ctx context.Context, turn string) {
	err := r.cfg.Approvals.WithdrawAll(context.WithoutCancel(ctx), func(t string) bool { return t == turn })
	if err != nil {
		r.cfg.Log.Error("withdraw the requests for approval of a turn", "turn", turn, "error", err)
	}
}

// decided adds what was decided about a call, and what led to it, to the next commit.
func (t *turn) decided(c model.ToolCall, v tool.Verdict) {
	now := t.cfg.Now()
	t.pending.Decisions = append(t.pending.Decisions, decisionlog.Rows(now, v.Records)...)
	t.pending.Decisions = append(t.pending.Decisions, journal.Decision{
		At: now, Kind: "enforce", Policy: "host", Digest: v.Policy, Answer: fmt.Sprintf("%s %s", v.Action, v.Where),
		Reason: fmt.Sprintf("%s: %q", c.Name, v.Reasons),
	})
}

func newToolStart(c model.ToolCall, v tool.Verdict) ToolStart {
	word := string(v.Action)
	if v.Action == tool.Run && v.Sandbox {
		word = "run_in_sandbox"
	}
	return ToolStart{Call: c.ID, Tool: c.Name, Args: v.Args, Verdict: word, Where: v.Where, Reasons: v.Reasons}
}

// people are those whom a turn asks for approval.
type people struct{ *turn }

// Request commits the answer with its call before anybody is asked about it, so that the request outlives a crash together with its turn.
func (p people) Request(ctx context.Context, ask approval.Ask) (consent.Approval, error) {
	if err := p.commit(ctx); err != nil {
		return consent.Approval{}, err
	}
	return p.cfg.Approvals.Request(ctx, ask)
}

// Wait gives up the turn's place among the working ones for as long as a person thinks, and stops its clock.
func (p people) Wait(ctx context.Context, id string) (granted bool, decider string, err error) {
	<-p.slots
	resume := p.pauseTime()
	defer func() {
		p.slots <- struct{}{}
		resume()
	}()
	return p.cfg.Approvals.Wait(ctx, id)
}

// Consume spends a grant.
func (p people) Consume(ctx context.Context, id string, b approval.Binding) error {
	return p.cfg.Approvals.Consume(ctx, id, b)
}

// Use spends a use of a lease.
func (p people) Use(ctx context.Context, ask approval.Ask) (consent.Grant, bool, error) {
	return p.cfg.Approvals.Use(ctx, ask)
}

func (t *turn) publishVerdict(s ToolStart) {
	t.publish(message.Event{
		Kind: message.ToolVerdict, Call: s.Call, Tool: s.Tool, Args: s.Args, Verdict: s.Verdict, Where: s.Where, Reasons: s.Reasons,
	})
}

// subjectOf is the turn as an agent of its chain would make its calls.
func (t *turn) subjectOf(a *Agent, session, turn string) tool.Subject {
	door := route.Door(t.row.Channel)
	local := t.local(a)
	sandbox := tool.SandboxState{
		Configured:    a.Sandboxed && (!local || t.gen.LocalDoors || a.Kind == KindCLI),
		Name:          t.sandbox(a),
		Names:         t.gen.Sandboxes,
		Available:     t.cfg.Machines.Available(t.sandbox(a)),
		Digest:        t.cfg.Machines.Digest,
		OnUnavailable: t.gen.OnUnavailable,
	}
	if t.origin.Call != nil || a.Kind == KindCLI {
		sandbox.OnUnavailable = tool.UnavailableDeny // who asks for the sandbox, or was meant for one, is not given the host instead
	}
	return tool.Subject{
		Message: t.origin, Role: t.gen.Roles.Of(t.row.Channel, t.row.Sender), Door: door, Agent: a.Name,
		Session: session, Turn: turn, Offered: a.Offered, Labels: t.session.labels,
		CallsInTurn: t.calls, Used: t.usage(), Sandbox: sandbox, Local: local, Approve: a.Approve,
		Dir: t.cfg.Machines.Dir(t.home()), Elevation: t.elevation(a),
	}
}

// execute runs an allowed call in its place.
func (t *turn) execute(ctx context.Context, v tool.Verdict, c model.ToolCall) tool.Result {
	return t.perform(ctx, v, c, t.toolCall(v, c))
}

// toolCall is a call with what its tool is told of the turn as it stands.
func (t *turn) toolCall(v tool.Verdict, c model.ToolCall) tool.Call {
	return tool.Call{
		ID: c.ID, Name: c.Name, Args: v.Args, Session: t.row.Session, Workspace: t.home(), Agent: t.agent.Name, Sender: t.row.Sender, Labels: t.session.labels,
		Turn: t.row.ID, Persons: t.gen.persons(t.row.Sender), Private: t.private(), Owner: t.gen.Roles.Of(t.row.Channel, t.row.Sender) == route.Owner,
		Progress: func(p []byte) {
			t.publish(message.Event{Kind: message.ToolProgress, Call: c.ID, Tool: c.Name, Text: string(p)})
		},
		Say: func(text string) { t.publish(message.Event{Kind: message.TextDelta, Text: text}) },
	}
}

// perform runs an allowed call. It may be beside others, and touches nothing of the turn that changes. Trouble of the host becomes a
// result: the model and the person are told, the host lives on.
func (t *turn) perform(ctx context.Context, v tool.Verdict, c model.ToolCall, call tool.Call) tool.Result {
	var w waiting
	ctx, stop := t.noticed(withTurn(ctx, t), c, &w)
	defer stop()
	m, err := t.awaitMachine(ctx, v, &w)
	if err != nil {
		return tool.Result{Text: "the call was not run: " + err.Error(), IsError: true}
	}
	call.Helper = t.helper(c)
	call.Machine, call.Place = m, tool.PlaceLabels(v.Where, !v.Sandbox || !t.gen.Offline[v.SandboxName])
	call.MaxText, call.Think = t.maxResult(c), t.think
	return t.refine(ctx, c, t.accompany(ctx, c, call, func(call tool.Call) tool.Result { return t.cfg.Tools.Run(ctx, v, call) }))
}

// home is what the session's workspace and sandboxes are called by: they outlast its beginnings.
func (t *turn) home() string {
	if t.lineage != nil {
		return t.lineage.record.Place
	}
	return message.ParseSession(t.row.Session).Home()
}

// ended reports whether somebody ended the turn for good, as opposed to the host going down.
func ended(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, errStopped) || errors.Is(cause, errTime) || errors.Is(cause, errInterrupted) || errors.Is(cause, errHalted)
}

// machine is where the call acts; nil where it acts on none, so that a note or a web page opens no workspace.
func (t *turn) machine(ctx context.Context, v tool.Verdict) (machine.Machine, error) {
	switch {
	case !v.OnMachine():
		return nil, nil
	case v.Sandbox:
		return t.cfg.Machines.Sandbox(ctx, t.home(), v.SandboxName)
	}
	return t.cfg.Machines.Host(t.home())
}

// result records what came of a call and shows it.
func (t *turn) result(r ToolResult) {
	t.step(turnlog.StepToolResult, r)
	t.session.label(r.Result.Labels)
	t.violated(r)
	t.publish(message.Event{
		Kind: message.ToolResult, Call: r.Call, Tool: r.Tool, Text: r.Result.Text, IsError: r.Result.IsError, Where: r.Where, Verdict: r.Verdict,
	})
}

// validJSON returns what a model wrote as arguments, or nothing where it is not JSON; Admit says what is wrong with it.
func validJSON(args json.RawMessage) json.RawMessage {
	if !json.Valid(args) {
		return nil
	}
	return args
}
