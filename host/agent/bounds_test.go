package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/internal/stopwatch"
)

// TestBounds: what a child's programs call and how long people think count for those above it too, and a turn that ended says why.
func TestBounds(t *testing.T) {
	halted := ""
	above := &bounds{limits: Limits{Steps: 1, ToolCalls: 2, Tokens: 3}, stopped: func() string { return halted }, time: stopwatch.Start(time.Hour, func() {})}
	child := &bounds{limits: above.limits, stopped: above.stopped, above: above, time: stopwatch.Start(time.Hour, func() {})}
	defer above.time.Stop()
	defer child.time.Stop()
	child.helped()
	above.helped()
	now := above.now(t.Context())
	if child.elsewhere.ToolCalls != 1 || now.Elsewhere != (transcript.Spent{ToolCalls: 2}) || now.Limits != (transcript.Limits{Steps: 1, ToolCalls: 2, Tokens: 3}) {
		t.Errorf("%+v above %+v", now, child.elsewhere)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.Canceled)
	if now := child.now(ctx); now.End != nil {
		t.Errorf("where the host goes down, the turn ends by %v", now.End)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	cancel(errHungUp)
	halted = "stopped by ann"
	if now := child.now(ctx); !errors.Is(now.End, errStopped) {
		t.Errorf("the turn ends by %v", now.End)
	}
	if now := child.now(t.Context()); now.End != errHalted {
		t.Errorf("the turn ends by %v", now.End)
	}
	child.pause()()
}
