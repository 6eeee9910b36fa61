package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/event"
)

// Constructor makes a provider for one tier. It opens no connection.
type Constructor func(config.Model) (Provider, error)

// Options are what a Set needs besides its configuration.
type Options struct {
	// Providers are the constructors by name; providers.All has those that Flynn is built with.
	Providers map[string]Constructor
	Log       *slog.Logger
	// Events gets a Call after every attempt; it may be nil.
	Events *event.Bus
	// Counts is what earlier sets learnt of how models count; nil begins anew.
	Counts *Counts
	// Before is the set of the previous generation. A breaker stays open if the access to its model is unchanged.
	Before *Set
}

// Call is the event of one attempt at one model.
type Call struct {
	Tier     string
	Provider string
	Model    string
	Attempt  int // from 1, within its tier
	Start    time.Time
	Duration time.Duration
	// FirstText is the time from the start to the first piece of text, or 0 if none came.
	FirstText time.Duration
	Usage     Usage
	Err       error
}

// Kind is the class of the call's failure, or "" if it succeeded or was cancelled.
func (c Call) Kind() Kind { return kindOf(c.Err) }

// Set calls models by tier. It is safe for concurrent use and belongs to one generation of the configuration.
type Set struct {
	tiers  map[string]*tier
	log    *slog.Logger
	events *event.Bus
}

// NewSet checks the tiers against each other and the providers. The client of a tier is built
// at its first call.
func NewSet(models map[string]config.Model, opts Options) (*Set, error) {
	s := &Set{tiers: make(map[string]*tier, len(models)), log: opts.Log, events: opts.Events}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	counts := opts.Counts
	if counts == nil {
		counts = &Counts{}
	}
	breakers := opts.Before.carryOver(models)
	for name, cfg := range models {
		constructor, ok := opts.Providers[cfg.Provider]
		if !ok {
			return nil, fmt.Errorf("models.%s: no provider %q; use one of %s", name, cfg.Provider, known(opts.Providers))
		}
		for _, fallback := range cfg.Fallbacks {
			if _, ok := models[fallback]; !ok {
				return nil, fmt.Errorf("models.%s: no tier %q to fall back to; use one of %s", name, fallback, known(models))
			}
		}
		s.tiers[name] = &tier{name: name, cfg: cfg, constructor: constructor, breaker: breakers[breakerKey(cfg)], counts: counts}
	}
	return s, nil
}

// breakerKey is the same for tiers that share a model, and so its breaker.
func breakerKey(cfg config.Model) string {
	return strings.Join([]string{cfg.Provider, cfg.BaseURL, cfg.Model}, "\x00")
}

// carryOver returns a breaker for each model: the previous one if every tier of the model has the access of a previous tier, since a model
// may answer with another key or another timeout.
func (s *Set) carryOver(models map[string]config.Model) map[string]*breaker {
	breakers, changed := map[string]*breaker{}, map[string]bool{}
	for _, cfg := range models {
		key := breakerKey(cfg)
		before := s.breakerOf(cfg)
		changed[key] = changed[key] || before == nil
		breakers[key] = before
	}
	for key := range breakers {
		if changed[key] {
			breakers[key] = &breaker{}
		}
	}
	return breakers
}

// breakerOf returns the breaker of a tier with the same access, or nil.
func (s *Set) breakerOf(cfg config.Model) *breaker {
	if s == nil {
		return nil
	}
	for _, t := range s.tiers {
		if breakerKey(t.cfg) == breakerKey(cfg) && t.cfg.APIKey == cfg.APIKey && t.cfg.TimeoutSeconds == cfg.TimeoutSeconds {
			return t.breaker
		}
	}
	return nil
}

func known[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// Close drops the providers' idle connections. Calls under way go on.
func (s *Set) Close() error {
	var errs []error
	for _, t := range s.tiers {
		if closer, ok := t.built().(io.Closer); ok {
			errs = append(errs, closer.Close())
		}
	}
	return errors.Join(errs...)
}

// Stream calls the model of a tier, and if that fails those of its fallbacks, in order. It fills in
// the model, the bound on the answer and the cost. emit receives the text as it comes and may be nil; it
// gets a Delta with Reset when another attempt begins and the text so far is void.
//
// While the breakers of all these models are open, the call is held back, for maxHold at most, until one of them lets it pass. If every
// model fails, the error wraps the *Error of each, the tier's own first.
func (s *Set) Stream(ctx context.Context, name string, req Request, emit func(Delta)) (Response, error) {
	first, ok := s.tiers[name]
	if !ok {
		return Response{}, fmt.Errorf("%w: %q; use one of %s", ErrNoTier, name, known(s.tiers))
	}
	w := &watcher{emit: emit}
	for held := time.Now().Add(maxHold); ; {
		resp, err := s.once(ctx, first, req, w)
		if err == nil || !hold(ctx, err, time.Until(held)) {
			return resp, err
		}
	}
}

// maxHold bounds how long a call is held back.
const maxHold = time.Minute

// hold waits until an open breaker may let a call pass, and reports whether that is within the time left.
func hold(ctx context.Context, err error, left time.Duration) bool {
	var held *heldError
	if !errors.As(err, &held) || held.cause.RetryAfter > left || !fits(ctx, held.cause.RetryAfter) {
		return false
	}
	timer := time.NewTimer(held.cause.RetryAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-held.changed:
	case <-ctx.Done():
		return false
	}
	return true
}

// once tries the tier and then its fallbacks.
func (s *Set) once(ctx context.Context, first *tier, req Request, w *watcher) (Response, error) {
	var failures []error
	route := s.route(first)
	for i, t := range route {
		resp, err := s.try(ctx, t, req, w)
		if err == nil {
			return resp, nil
		}
		if refused := (refusedError{}); errors.As(err, &refused) {
			return Response{}, refused.error
		}
		failures = append(failures, err)
		if ctx.Err() != nil || i+1 == len(route) || !passesOn(err, t, route[i+1:]) {
			break
		}
		s.log.Warn("fall back to another model", "tier", t.name, "next_tier", route[i+1].name, "kind", kindOf(err), "error", err)
	}
	return Response{}, allFailed(first.name, failures)
}

// route returns the tier and its fallbacks, each once. Fallbacks of fallbacks are not followed.
func (s *Set) route(first *tier) []*tier {
	out := []*tier{first}
	for _, name := range first.cfg.Fallbacks {
		if t := s.tiers[name]; !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// passesOn reports whether a fallback may do better. A request that is too long needs a larger window;
// without one the caller shortens it.
func passesOn(err error, failed *tier, rest []*tier) bool {
	if kindOf(err) != TooLong {
		return true
	}
	return slices.ContainsFunc(rest, func(t *tier) bool {
		return failed.cfg.ContextWindow > 0 && t.cfg.ContextWindow > failed.cfg.ContextWindow
	})
}

func allFailed(tier string, failures []error) error {
	if len(failures) == 1 {
		return failures[0]
	}
	return fmt.Errorf("every model of tier %q failed: %w", tier, errors.Join(failures...))
}

func kindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// watcher passes deltas on and remembers whether a new attempt must take text back.
type watcher struct {
	emit  func(Delta)
	dirty bool
}

func (w *watcher) text(d Delta) {
	w.dirty = true
	if w.emit != nil {
		w.emit(d)
	}
}

func (w *watcher) reset() {
	if w.dirty && w.emit != nil {
		w.emit(Delta{Reset: true})
	}
	w.dirty = false
}
