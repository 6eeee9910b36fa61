package agent

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/internal/stopwatch"
)

// bounds holds the limits of a turn and what counts towards them besides its steps.
type bounds struct {
	limits    Limits
	stopped   func() string    // as in Config
	elsewhere transcript.Spent // as in transcript.Now
	time      *stopwatch.Watch // nil before the turn runs
	above     *bounds          // of the parent that waits for the turn, or nil
}

// now returns the facts outside the steps that decide what comes next.
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

// spent returns what counts towards the limits.
func (b *bounds) spent(s *transcript.State) transcript.Spent { return s.Spent().Plus(b.elsewhere) }

// helped counts a call made by a program of the turn, for the turn and its waiting parents. No step records it.
func (b *bounds) helped() {
	for ; b != nil; b = b.above {
		b.elsewhere.ToolCalls++
	}
}

// pause stops the clocks of the turn and of its waiting parents until resume is called.
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
