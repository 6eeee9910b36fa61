package config

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// stageTimeout bounds all stages of one reload together.
const stageTimeout = time.Minute

// Stage prepares a part of the program for a new configuration while the old one stays in force. It returns a function
// that puts the preparation in force and one that undoes it; either may be nil. Exactly one of them is called, unless
// err is not nil: then the stage has cleaned up and neither is called. A commit cannot fail: do everything that can fail
// in the stage.
type Stage func(ctx context.Context, old, new *Config) (commit, rollback func(), err error)

// Holder keeps the configuration of a running process. Load makes a generation; a reload makes the next one in four steps:
// validate the file, stage every subscriber, apply (swap Current, commit), confirm (keep a last good copy).
// A failure in the first two leaves everything as it was. Hosts that share a store agree between them; see Group.
type Holder struct {
	path   string
	getenv func(string) string
	log    *slog.Logger
	checks []Check

	current atomic.Pointer[Config]

	mu     sync.Mutex // one reload at a time; guards what follows
	stages []*Stage
	// seen is the digest of the file when it was last tried, good or bad.
	seen string
	// refused is why the file was refused when it was last tried; nil if it is in force.
	refused error
	group   Group // of hosts that share a store; may be nil
}

// NewHolder loads the file at path as generation 1. Its error is that of Load; the checks belong to every load.
func NewHolder(path string, getenv func(string) string, log *slog.Logger, checks ...Check) (*Holder, error) {
	cfg, err := Load(path, getenv, checks...)
	if err != nil {
		return nil, err
	}
	return newHolder(path, cfg, getenv, log, checks), nil
}

func newHolder(path string, cfg *Config, getenv func(string) string, log *slog.Logger, checks []Check) *Holder {
	h := &Holder{path: path, getenv: getenv, log: log, checks: checks, seen: cfg.Digest}
	cfg.Generation = 1
	h.current.Store(cfg)
	h.warn(cfg)
	return h
}

// Current is the configuration in force. A caller keeps the value for the whole of its work.
func (h *Holder) Current() *Config { return h.current.Load() }

// Path returns the path of the file. That of Current is another one after a start with the last good configuration.
func (h *Holder) Path() string { return h.path }

// Refused returns why the file was refused when it was last tried, and the digest that it had; the error is nil if it is in force.
func (h *Holder) Refused() (digest string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen, h.refused
}

// Subscribe registers a stage for each reload, in the order of subscription, until unsubscribe is called. Neither may be
// called from within a stage or commit.
func (h *Holder) Subscribe(stage Stage) (unsubscribe func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stages = append(h.stages, &stage)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.stages = slices.DeleteFunc(h.stages, func(s *Stage) bool { return s == &stage })
	}
}

// Reload puts the file in force, even if it has not changed: secrets may have. After an error the old generation stays
// in force.
func (h *Holder) Reload(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.Current()
	src, err := readFile(h.path)
	if err == nil {
		h.seen = digest(src)
		err = h.put(ctx, src, h.propose, nil)
	}
	if err != nil {
		h.refused = err
		return h.stays(old, err)
	}
	return nil
}

// put puts a text in force. When it is prepared, agree may still prevent that, and write writes the file, unless it is nil; h.mu is held.
func (h *Holder) put(ctx context.Context, src []byte, agree func(context.Context, Proposal) (Agreed, error), write func() error) (err error) {
	old := h.Current()
	cfg, err := parse(h.path, src, h.getenv, h.checks...)
	if err != nil {
		return err
	}
	if err := RestartNeeded(old, cfg); err != nil {
		return err
	}
	keepStart(old, cfg)
	cfg.Generation = old.Generation + 1
	commits, rollback, err := h.stage(ctx, old, cfg)
	if err != nil {
		return err
	}
	p := Proposal{Old: old, New: cfg, After: src}
	if h.group != nil {
		p.Before = h.text()
	}
	agreed, err := agree(ctx, p)
	if err == nil && write != nil {
		tried := h.seen
		h.seen = digest(src)
		if err = write(); err != nil {
			h.seen = tried
		}
	}
	if err != nil {
		rollback()
		return err
	}
	cfg.Revision, cfg.Hosts = agreed.Revision, agreed.Hosts
	if h.seen == cfg.Digest {
		h.refused = nil
	}
	h.current.Store(cfg)
	for _, commit := range commits {
		commit()
	}
	h.log.Info("configuration applied", "path", cfg.Path, "generation", cfg.Generation)
	h.warn(cfg)
	h.confirm(cfg, src)
	return nil
}

// warn logs the use of old names, and what waits for a restart.
func (h *Holder) warn(cfg *Config) {
	for _, w := range cfg.Renamed {
		h.log.Warn("a key of the configuration has a new name", "problem", w.Error())
	}
	for _, w := range cfg.Waiting {
		h.log.Warn("a key of the configuration is in force after a restart", "key", w.Key, "runs", w.Runs, "wanted", w.Wanted)
	}
}

func (h *Holder) stays(old *Config, err error) error {
	return fmt.Errorf("reload %s: generation %d stays in force: %w", h.path, old.Generation, err)
}

// stage runs all stages, or undoes those that ran when one fails. It returns what puts them in force, and what undoes them.
func (h *Holder) stage(ctx context.Context, old, new *Config) (commits []func(), rollback func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, stageTimeout)
	defer cancel()
	var rollbacks []func()
	rollback = func() {
		for _, undo := range slices.Backward(rollbacks) {
			undo()
		}
	}
	for _, stage := range h.stages {
		commit, undo, err := (*stage)(ctx, old, new)
		if err != nil {
			rollback()
			return nil, nil, err
		}
		if commit != nil {
			commits = append(commits, commit)
		}
		if undo != nil {
			rollbacks = append(rollbacks, undo)
		}
	}
	if err := ctx.Err(); err != nil {
		rollback()
		return nil, nil, err
	}
	return commits, rollback, nil
}

// confirm keeps copies of the configuration in force. src is its text; nil if it is not that of the file any more. A failure is only logged:
// nothing depends on the copies yet.
func (h *Holder) confirm(cfg *Config, src []byte) {
	if err := keepLastGood(cfg); err != nil {
		h.log.Warn("cannot keep the last good configuration", "error", err)
	}
	if src == nil {
		return
	}
	if err := HistoryOf(cfg).Keep(src, false); err != nil {
		h.log.Warn("cannot keep the configuration for an undo", "error", err)
	}
}
