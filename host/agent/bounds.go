package agent

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/internal/stopwatch"
)

// bounds are the limits of a turn, and what counts for them beside its steps.
type bounds struct {
	limits    Limits
	stopped   func() string    // see Config
	elsewhere transcript.Spent // see transcript.Now
	time      *stopwatch.Watch // nil before the turn runs
	above     *bounds          // of a parent that waits for the turn, or nil
}

// now is what the steps do not say about what comes next.
func (b *bounds) now(ctx context.Context) transcript.Now {
	now := transcript.Now{Limits: b.limits.counted(), Elsewhere: b.elsewhere}
	switch {
	case ended(ctx):
		now.End = context.Cause(ctx)
	case b.stopped() != "":
		now.End = errHalted
	}
	return now
}

// spent is what counts for the limits.
func (b *bounds) spent(s *transcript.State) transcript.Spent { return s.Spent().Plus(b.elsewhere) }

// helped counts a call of a program, for the turn and those above it. No step has it.
func (b *bounds) helped() {
	for ; b != nil; b = b.above {
		b.elsewhere.ToolCalls++
	}
}

// pause stops the clocks of the turn and of those above it until the returned function is called.
func (b *bounds) pause() (resume func()) {
	above := func() {}
	if b.above != nil {
		above = b.above.pause()
	}
	own := b.time.Pause()
	return func() {
		own()
		above()
	}
}
