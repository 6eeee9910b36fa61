package model

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/flynnhost/flynn/sdk/backoff"
)

// Bounds of the attempts at a tier before its fallbacks are tried.
const (
	maxAttempts = 3
	// maxSameFailure bounds attempts after failures that are expensive and rarely temporary.
	maxSameFailure = 2
	// lackAttempts bounds attempts while this machine lacks a resource: half a minute, as for reads of the store.
	lackAttempts = 8
	firstBackOff = 500 * time.Millisecond
	maxBackOff   = 8 * time.Second
	// maxWait is the longest Retry-After that is obeyed; above it the tier has failed.
	maxWait = 30 * time.Second
)

// try calls one tier until it answers or another attempt is pointless.
func (s *Set) try(ctx context.Context, t *tier, req Request, w *watcher) (Response, error) {
	req = t.fit(ctx, req)
	rough := Rough(req)
	for attempt := 1; ; attempt++ {
		a := t.attempt(req, rough, attempt)
		if err := req.enter(ctx, a); err != nil {
			return Response{}, err
		}
		if err := t.breaker.admit(time.Now(), req.Source); err != nil {
			req.leave(a, Usage{}, err)
			return Response{}, err
		}
		resp, err := s.attempt(ctx, t, a, req, w)
		if err == nil {
			t.counts.learn(countKey(t.cfg), rough, resp.Usage)
			return resp, nil
		}
		wait, again := plan(err, attempt)
		if !again || ctx.Err() != nil || !fits(ctx, wait) {
			return Response{}, err
		}
		s.log.Warn("try the model again", "tier", t.name, "attempt", attempt, "wait", wait, "kind", kindOf(err), "error", err)
		if backoff.Sleep(ctx, wait) != nil {
			return Response{}, err
		}
	}
}

// attempt makes one call and reports it to the breaker, the gate and the bus.
func (s *Set) attempt(ctx context.Context, t *tier, a Attempt, req Request, w *watcher) (Response, error) {
	w.reset()
	call := Call{Tier: t.name, Provider: t.cfg.Provider, Model: t.cfg.Model, Attempt: a.Number, Start: time.Now()}
	text := 0
	resp, err := t.call(ctx, req, func(d Delta) {
		text += len(d.Text)
		if call.FirstText == 0 {
			call.FirstText = max(time.Since(call.Start), 1)
		}
		w.text(d)
	})
	call.Duration, call.Usage, call.Err = time.Since(call.Start), t.charged(a, resp.Usage, err, text), err
	t.breaker.report(time.Now(), call.Start, req.Source, err)
	req.leave(a, call.Usage, err)
	s.events.Publish(call)
	return resp, err
}

// plan reports whether another attempt makes sense after this failure, and how long to wait before it.
func plan(err error, attempt int) (wait time.Duration, again bool) {
	var e *Error
	if !errors.As(err, &e) {
		return 0, false
	}
	limit := maxAttempts
	switch e.Kind {
	case BadAnswer, Timeout:
		limit = maxSameFailure
	case Lacking:
		limit = lackAttempts
	}
	if !e.Temporary() && e.Kind != BadAnswer || attempt >= limit || e.RetryAfter > maxWait {
		return 0, false
	}
	if e.RetryAfter > 0 {
		return e.RetryAfter + rand.N(time.Second), true // not all clients at the same moment
	}
	return backoff.Delay(attempt, firstBackOff, maxBackOff), true
}

// fits reports whether there is time left after the wait.
func fits(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > wait
}
