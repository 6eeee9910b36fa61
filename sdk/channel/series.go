package channel

import (
	"context"
	"strconv"
	"time"
)

// seriesTime is how long the messages of one send may take until Series reports its progress to the host.
const seriesTime = 5 * time.Second

// Series sends the n messages of a send in order, beginning with the first that no earlier attempt delivered. send delivers message i and
// returns its id; outcome converts its error to the outcome of that message.
//
// A series that takes long stops between two messages and sets Sent.Resume to its position. The host commits that and requests the rest at
// once, so that neither its deadline nor a crash makes people see messages twice, and other conversations are served in between.
func Series(ctx context.Context, s Send, n int, send func(ctx context.Context, i int) (id string, err error), outcome func(error) (Sent, error)) (Sent, error) {
	first := s.Delivered()
	began, patience := time.Now(), Patience(ctx)
	var ids []string
	stopped := func(sent Sent, i int) Sent {
		if sent.MessageIDs = ids; i > 0 {
			sent.Resume = strconv.Itoa(i)
		}
		return sent
	}
	for i := first; i < n; i++ {
		if i > first && !s.Draft && (patience.Err() != nil || time.Since(began) >= seriesTime) {
			return stopped(Sent{Outcome: OutcomeNotSent}, i), nil
		}
		id, err := send(ctx, i)
		if err != nil {
			sent, err := outcome(err)
			return stopped(sent, i), err
		}
		if id != "" {
			ids = append(ids, id)
		}
	}
	return Sent{Outcome: OutcomeSent, MessageIDs: ids}, nil
}

// Delivered returns how many messages of a Series earlier attempts have delivered. A Resume that Series did not write counts as none.
func (s Send) Delivered() int {
	n, err := strconv.Atoi(s.Resume)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

type patienceKey struct{}

// Patience returns the context for waits within a Send, such as for a rate limit. It ends before ctx does, and as soon as the plugin should
// end, which leaves time to report what was not sent. Use ctx itself for calls to the platform, because the outcome of an interrupted call
// is unknown.
func Patience(ctx context.Context) context.Context {
	if p, ok := ctx.Value(patienceKey{}).(context.Context); ok {
		return p
	}
	return ctx
}

// withPatience adds to ctx a patience that also ends with server. A quarter of the time, at most 15 s, is left for the answer.
func withPatience(ctx context.Context, server func(context.Context) (context.Context, context.CancelFunc)) (context.Context, context.CancelFunc) {
	waits, cancel := server(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		var stop context.CancelFunc
		waits, stop = context.WithDeadline(waits, deadline.Add(-min(time.Until(deadline)/4, 15*time.Second)))
		end := cancel
		cancel = func() { stop(); end() }
	}
	return context.WithValue(ctx, patienceKey{}, waits), cancel
}
