package agent

import (
	"context"
	"errors"
	"slices"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// maxParallel bounds the calls of one answer that run in parallel.
const maxParallel = 4

// readOnly reports whether a call is of a read-only tool. Admit still decides about every call.
func (l *caller) readOnly(c model.ToolCall) bool {
	known, ok := l.gen.Registry.Get(c.Name)
	if !ok {
		return false
	}
	effect := known.Spec().Effect
	return effect == tool.Read || effect == tool.Network
}

// errNeedsApproval is returned for a call that needs a person's approval. The turn asks when no other call runs.
var errNeedsApproval = errors.New("this call needs a person's approval")

// refusingApprover approves nothing and uses no lease.
type refusingApprover struct{}

var _ tool.Approver = refusingApprover{}

func (refusingApprover) Request(context.Context, approval.Ask) (consent.Approval, error) {
	return consent.Approval{}, errNeedsApproval
}
func (refusingApprover) Wait(context.Context, string) (bool, string, error) {
	return false, "", errNeedsApproval
}
func (refusingApprover) Consume(context.Context, string, approval.Binding) error {
	return errNeedsApproval
}
func (refusingApprover) Use(context.Context, approval.Ask) (consent.Grant, bool, error) {
	return consent.Grant{}, false, nil
}

// parallelCalls are calls that run in parallel. The turn's own goroutine decides, records and commits; the others only run tools.
type parallelCalls struct {
	*caller
	ctx  context.Context
	done chan transcript.ToolResult
}

// inParallel decides about calls in order and runs those that may run in parallel. It stops before the first call that is not read-only
// or needs a person's approval, waits for the calls before it, and reports whether that call is the first. Each start is committed
// before its call runs, and each result when it arrives; the transcript restores the order.
func (l *caller) inParallel(ctx context.Context) (asks bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &parallelCalls{caller: l, ctx: ctx, done: make(chan transcript.ToolResult)}
	l.performer.callbacks = make(chan func())
	defer func() { l.performer.callbacks = nil }()
	for settled := 0; ; settled++ {
		now := l.now(ctx)
		now.Running = l.underWay
		next, ok := transcript.Next(&l.state, now).(transcript.Run)
		if !ok || !l.readOnly(next.Calls[0]) {
			break
		}
		var more bool
		if more, err = s.begin(next.Calls[0]); !more || err != nil {
			asks = settled == 0
			break
		}
	}
	for len(l.underWay) > 0 {
		if failed := s.await(); err == nil && failed != nil {
			err = failed
			cancel()
		}
	}
	return asks, err
}

// begin decides about a call and starts it if it may run. It returns false if a person must approve the call.
func (l *parallelCalls) begin(c model.ToolCall) (bool, error) {
	v, err := l.enforcer().Admit(l.ctx, l.subject(l.ctx), c, refusingApprover{}, nil)
	switch {
	case errors.Is(err, errNeedsApproval):
		// The call is decided about again in its turn; the policies' present answers are logged as well.
		l.pending.Decisions = append(l.pending.Decisions, decisionlog.Rows(l.clock(), v.Records)...)
		return false, nil
	case l.ctx.Err() != nil && !ended(l.ctx):
		return false, l.ctx.Err()
	case err != nil:
		return false, err
	}
	l.announce(c)
	l.decided(c, v)
	start := l.judged(c, v)
	if v.Action != tool.Run {
		l.result(transcript.ToolResult{ToolStart: start, Result: l.performer.refused(l.ctx, v)})
		return true, nil
	}
	for len(l.underWay) == maxParallel {
		if err := l.await(); err != nil {
			return false, err
		}
	}
	l.step(start)
	if err := l.commit(l.ctx); err != nil {
		return false, err
	}
	l.start(v, c, start)
	return true, nil
}

// start runs a call on a goroutine of its own, which the turn waits for.
func (l *parallelCalls) start(v tool.Decision, c model.ToolCall, start transcript.ToolStart) {
	call := l.performer.toolCall(v, c)
	l.underWay = append(l.underWay, c.ID)
	go func() {
		r := transcript.ToolResult{ToolStart: start, Result: tool.Result{Text: "the call was not run: " + errBroken.Error(), IsError: true}}
		defer func() { l.done <- r }()
		defer recovered(l.log, "turn", l.row.ID, func() {})
		r.Result = l.performer.perform(l.ctx, v, c, call)
	}()
}

// await takes the next result. Meanwhile it runs the callbacks of the running calls on the turn's goroutine.
func (l *parallelCalls) await() error {
	for {
		select {
		case do := <-l.performer.callbacks:
			do()
		case r := <-l.done:
			l.underWay = slices.DeleteFunc(l.underWay, func(id string) bool { return id == r.Call })
			if l.ctx.Err() != nil && !ended(l.ctx) {
				return l.ctx.Err() // the start is committed; the next process reports the call as interrupted
			}
			l.result(r)
			return l.commit(l.ctx)
		}
	}
}
