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

// maxSideBySide is how many calls of one answer run at a time.
const maxSideBySide = 4

// onlyLooks reports whether a call is of a tool that changes nothing here. Admit decides what is really run, call by call.
func (l *caller) onlyLooks(c model.ToolCall) bool {
	known, ok := l.gen.Registry.Get(c.Name)
	if !ok {
		return false
	}
	effect := known.Spec().Effect
	return effect == tool.Read || effect == tool.Network
}

// errAsks is returned for a call about which a person has to be asked. Its turn asks him when no other call runs.
var errAsks = errors.New("a person has to be asked about this call")

// alone asks nobody, and uses no lease.
type alone struct{}

var _ tool.Approver = alone{}

func (alone) Request(context.Context, approval.Ask) (consent.Approval, error) {
	return consent.Approval{}, errAsks
}
func (alone) Wait(context.Context, string) (bool, string, error)      { return false, "", errAsks }
func (alone) Consume(context.Context, string, approval.Binding) error { return errAsks }
func (alone) Use(context.Context, approval.Ask) (consent.Grant, bool, error) {
	return consent.Grant{}, false, nil
}

// looks are calls under way side by side. The turn's own goroutine decides, records and commits; the others only run tools.
type looks struct {
	*caller
	ctx  context.Context
	done chan transcript.ToolResult
}

// sideBySide decides about calls in their order and runs those that may run beside each other. It stops before the first that does not only
// look, or about which a person has to be asked, when all before it have ended, and reports whether that is the very first. Each start
// is committed before its call runs, each result when it comes: the order of the calls is the transcript's business.
func (l *caller) sideBySide(ctx context.Context) (asks bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &looks{caller: l, ctx: ctx, done: make(chan transcript.ToolResult)}
	l.performer.callbacks = make(chan func())
	defer func() { l.performer.callbacks = nil }()
	for settled := 0; ; settled++ {
		now := l.now(ctx)
		now.Running = l.underWay
		next, ok := transcript.Next(&l.state, now).(transcript.Run)
		if !ok || !l.onlyLooks(next.Calls[0]) {
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

// begin decides about a call and starts it if it may run. It returns false for one about which a person has to be asked.
func (l *looks) begin(c model.ToolCall) (bool, error) {
	v, err := l.enforcer().Admit(l.ctx, l.subject(), c, alone{}, nil)
	switch {
	case errors.Is(err, errAsks):
		// It is decided anew when its turn comes; the log has what the policies said now as well.
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
	for len(l.underWay) == maxSideBySide {
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

// start runs a call beside the turn, which awaits it before it goes on.
func (l *looks) start(v tool.Decision, c model.ToolCall, start transcript.ToolStart) {
	call := l.performer.toolCall(v, c)
	l.underWay = append(l.underWay, c.ID)
	go func() {
		r := transcript.ToolResult{ToolStart: start, Result: tool.Result{Text: "the call was not run: " + errBroken.Error(), IsError: true}}
		defer func() { l.done <- r }()
		defer recovered(l.log, "turn", l.row.ID, func() {})
		r.Result = l.performer.perform(l.ctx, v, c, call)
	}()
}

// await takes the next result, and does what calls under way ask of the turn's own goroutine meanwhile.
func (l *looks) await() error {
	for {
		select {
		case do := <-l.performer.callbacks:
			do()
		case r := <-l.done:
			l.underWay = slices.DeleteFunc(l.underWay, func(id string) bool { return id == r.Call })
			if l.ctx.Err() != nil && !ended(l.ctx) {
				return l.ctx.Err() // the start is committed; the next process says that it was interrupted
			}
			l.result(r)
			return l.commit(l.ctx)
		}
	}
}
