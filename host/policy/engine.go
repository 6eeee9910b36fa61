package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/internal/event"
)

// Config is what an Engine needs.
type Config struct {
	Sources []Source // in chain order
	// CacheDir keeps compiled modules across restarts; "" keeps none. Its files are run as machine code, so the folder
	// has to belong to the user and have mode 0700.
	CacheDir string
	Log      *slog.Logger
	// Gate checks every module before it comes into force; nil accepts all.
	Gate Gate
	// Events gets a Change after each change of the modules in force and after each refusal, a Status after each load that a running
	// Engine tried, and a Shadowed for each decision that concerns a shadow policy. It may be nil.
	Events *event.Bus
	// CountBlocks makes modules count how often each of their basic blocks runs; see Module.TakeCounts. It changes neither
	// answers nor fuel, but makes decisions slower.
	CountBlocks bool
	// History remembers across restarts which modules were in force; it may be nil.
	History History
}

// Engine keeps the chain of policies in force. It is safe for concurrent use.
type Engine struct {
	cfg     Config
	host    *host
	current atomic.Pointer[Set]
	rewatch chan struct{} // wakes Run: the folders to watch may have changed
	trips   chan struct{} // wakes Run: a module has failed its trial
	shadows *shadowQueue

	staging sync.Mutex // held during a change, which includes compiling; guards closed
	closed  bool

	showing sync.Mutex // held briefly; guards slots, which changes only with staging held too
	slots   []*slot    // the chain, in order; a slot in it is replaced and never changed
	loading []Source   // policies that a Stage is loading
}

var errClosed = errors.New("the policy engine is closed")

// New loads the chain. A policy that cannot be loaded is no error: it fails closed, which denies tools and routes to its agent for
// errors, and Status reports it.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := checkSources(cfg.Sources); err != nil {
		return nil, err
	}
	h, err := newHost(ctx, cfg.CacheDir)
	if err != nil {
		return nil, err
	}
	h.counts = cfg.CountBlocks
	e := &Engine{cfg: cfg, host: h, rewatch: make(chan struct{}, 1), trips: make(chan struct{}, 1), shadows: newShadowQueue()}
	for _, source := range cfg.Sources {
		e.slots = append(e.slots, &slot{source: source, passed: &atomic.Int64{}})
	}
	e.refreshEach(ctx, e.slots, ByStart)
	for _, s := range e.slots {
		if s.err != nil {
			e.cfg.Log.Error("policy cannot be loaded and fails closed", "policy", s.source.Name, "path", s.source.Path, "error", s.err)
		}
	}
	e.publish()
	e.tell(ctx, e.slots)
	return e, nil
}

// Configure puts a new chain in force; see Stage.
func (e *Engine) Configure(ctx context.Context, sources []Source) error {
	commit, _, err := e.Stage(ctx, sources)
	if err == nil {
		commit()
	}
	return err
}

// Stage loads a whole new chain and leaves the old one in force until commit, which changes one pointer and cannot fail. It returns an error
// if a new or changed policy cannot be loaded; an unchanged one keeps its state, even a failing one. Chains pinned
// before keep their modules. Exactly one of commit and rollback must be called, and soon: until then no other change can be made.
func (e *Engine) Stage(ctx context.Context, sources []Source) (commit, rollback func(), err error) {
	if err := checkSources(sources); err != nil {
		return nil, nil, err
	}
	e.staging.Lock()
	if e.closed {
		e.staging.Unlock()
		return nil, nil, errClosed
	}
	staged, err := e.stage(ctx, sources)
	rollback = func() {
		dropAll(staged)
		e.staging.Unlock()
	}
	if err != nil {
		rollback()
		return nil, nil, err
	}
	return func() { e.commit(ctx, staged) }, rollback, nil
}

// commit puts staged slots in force and releases the lock that Stage took.
func (e *Engine) commit(ctx context.Context, staged []*slot) {
	defer e.staging.Unlock()
	old := e.slots
	e.replace(staged, true)
	e.tell(ctx, staged)
	for _, s := range old {
		if e.slotNamed(s.source.Name) == nil {
			e.record(ctx, Change{At: time.Now(), Policy: s.source.Name, Path: s.source.Path, Outcome: OutcomeRemoved, By: ByConfig})
		}
	}
	select {
	case e.rewatch <- struct{}{}:
	default:
	}
}

func (e *Engine) stage(ctx context.Context, sources []Source) ([]*slot, error) {
	var staged []*slot
	var loading []Source
	for _, source := range sources {
		s := &slot{source: source, passed: &atomic.Int64{}}
		if old := e.slotNamed(source.Name); old != nil {
			s.inherit(old)
		}
		if s.module == nil {
			loading = append(loading, source)
		}
		staged = append(staged, s)
	}
	e.showLoading(loading)
	defer e.showLoading(nil)
	e.refreshEach(ctx, staged, ByConfig)
	var errs []error
	for _, s := range staged {
		if old := e.slotNamed(s.source.Name); s.err != nil && (old == nil || !old.source.equal(s.source)) {
			errs = append(errs, fmt.Errorf("policy %s: %w", s.source.Name, s.err))
		}
	}
	return staged, errors.Join(errs...)
}

// showLoading makes Status list the policies that a Stage is loading, and logs them.
func (e *Engine) showLoading(sources []Source) {
	if len(sources) > 0 {
		var names []string
		for _, s := range sources {
			names = append(names, s.Name)
		}
		e.cfg.Log.Info("loading policies; the current chain decides until all of them are ready", "policies", names)
	}
	e.showing.Lock()
	defer e.showing.Unlock()
	e.loading = sources
}

func (e *Engine) slotNamed(name string) *slot {
	for _, s := range e.slots {
		if s.source.Name == name {
			return s
		}
	}
	return nil
}

// replace makes other slots visible and drops the old ones. With inForce it publishes them as the chain. e.staging is held.
func (e *Engine) replace(slots []*slot, inForce bool) {
	e.showing.Lock()
	defer e.showing.Unlock()
	old := e.slots
	e.slots = slots
	if inForce {
		e.publish()
	}
	dropAll(old)
}

// publish makes the chain in e.slots the one in force.
func (e *Engine) publish() {
	next := newSet(e.slots, e.host.zone, e.cfg.Log)
	next.queue, next.events = e.shadows, e.cfg.Events
	if old := e.current.Swap(next); old != nil {
		old.Release()
	}
}

// Pin returns the chain in force and keeps it alive until its Release.
func (e *Engine) Pin() *Set {
	for {
		// A chain that was just released has been replaced already.
		if s := e.current.Load(); s.acquire() {
			return s
		}
	}
}

// Status returns the state of every policy, in chain order, then of those that are loading and not in the chain yet. It does not wait for a
// change that is under way.
func (e *Engine) Status() []Status {
	e.showing.Lock()
	defer e.showing.Unlock()
	all := make([]Status, len(e.slots))
	for i, s := range e.slots {
		all[i] = s.status()
	}
	for _, s := range e.loading {
		if e.slotNamed(s.Name) == nil {
			all = append(all, loadingStatus(s))
		}
	}
	return all
}

// Source returns a policy of the chain as it is configured: an ErrUnknown if there is none of that name.
func (e *Engine) Source(name string) (Source, error) {
	e.showing.Lock()
	defer e.showing.Unlock()
	if s := e.slotNamed(name); s != nil {
		return s.source, nil
	}
	return Source{}, notInChain(name)
}

// Close ends the engine. Pinned chains stay usable until their Release; chains pinned later fail closed.
func (e *Engine) Close() error {
	e.staging.Lock()
	defer e.staging.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	ended := make([]*slot, len(e.slots))
	for i, s := range e.slots {
		ended[i] = &slot{source: s.source, err: errClosed, passed: s.passed}
	}
	e.replace(ended, true)
	return e.host.release()
}
