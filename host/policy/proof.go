package policy

import (
	"context"
	"fmt"
	"time"
)

// Candidate is a module that is verified, metered and compiled, but not in force.
type Candidate struct {
	*Module
	Source Source
	Wasm   []byte // its file
}

// Gate decides whether a module may come into force.
type Gate interface {
	// Prove returns an error if a module may not come into force. It may ask the module.
	Prove(ctx context.Context, c Candidate) error
	// Proofs returns a digest of what Prove checks besides the module, such as test cases: a refused file is tried again
	// when it changes.
	Proofs(s Source) string
}

// GateFunc is a Gate whose Proofs never change.
type GateFunc func(ctx context.Context, c Candidate) error

// Prove implements Gate.
func (f GateFunc) Prove(ctx context.Context, c Candidate) error { return f(ctx, c) }

// Proofs implements Gate.
func (f GateFunc) Proofs(Source) string { return "" }

// History remembers across restarts which modules came into force. Without one an engine cannot roll back.
type History interface {
	// Recall returns how a policy was left.
	Recall(ctx context.Context, policy string) (Past, error)
	// Keep stores a module before it comes into force. If it returns an error the module does not come into force,
	// because its decisions could not be traced to it later.
	Keep(ctx context.Context, c Candidate) error
	// Fetch returns a stored module by the SHA-256 of its file.
	Fetch(ctx context.Context, file string) ([]byte, error)
	// Record stores a change that was made. Its error is only logged.
	Record(ctx context.Context, c Change) error
}

// Past is how a policy was left.
type Past struct {
	File    string // SHA-256 of the module that was in force; "" is none
	Digest  string // of that module, its data and its limits
	Refused string // digest of a module that failed in force and is not tried again
	Pin     Pin
}

// Pin keeps a module of the archive in force for as long as the policy's file stays as it was.
type Pin struct {
	File string // SHA-256 of the module in the archive; "" is no pin
	Over string // SHA-256 of the file that it replaces
}

// Outcome is the result of a change.
type Outcome string

// The outcomes of a change.
const (
	OutcomeInForce    Outcome = "in force"
	OutcomeRefused    Outcome = "refused"     // Reason says why; the module in force stays
	OutcomeReverted   Outcome = "reverted"    // it failed too often in force; the previous module is back
	OutcomeRolledBack Outcome = "rolled back" // a person went back to it
	OutcomeCleared    Outcome = "cleared"     // a person stopped overriding the policy file
	OutcomeRemoved    Outcome = "removed"     // the policy is no longer in the chain
)

// The actors of a change.
const (
	ByStart    = "start"
	ByFile     = "file"          // it changed
	ByConfig   = "configuration" // it was reloaded
	ByFailures = "failures"
	ByCommand  = "command"
)

// Change is one event in the life of a policy.
type Change struct {
	At        time.Time
	Policy    string
	Path      string // of the policy's file
	Outcome   Outcome
	File      string // SHA-256 of the module; "" if it could not be read
	Digest    string // of the module, its data and its limits, if it was loaded
	Over      string // of a roll-back: SHA-256 of the file that it overrides
	NowFile   string // SHA-256 of the module in force afterwards; "" is none
	NowDigest string
	By        string
	Reason    string
}

// Leaves returns how a policy is left by the last of its changes.
func (c Change) Leaves() Past {
	p := Past{File: c.NowFile, Digest: c.NowDigest}
	switch c.Outcome {
	case OutcomeReverted:
		p.Refused = c.Digest
	case OutcomeRolledBack:
		p.Pin = Pin{File: c.File, Over: c.Over}
	}
	return p
}

// recall fills in how the policy was left, on first use.
func (e *Engine) recall(ctx context.Context, s *slot) error {
	if s.recalled || e.cfg.History == nil {
		return nil
	}
	past, err := e.cfg.History.Recall(ctx, s.source.Name)
	if err != nil {
		return err
	}
	s.recalled, s.past = true, past
	return nil
}

// prove takes a loaded module through the gate and stores it. The module that was in force when the engine ended has passed the
// gate before.
func (e *Engine) prove(ctx context.Context, s *slot, m *Module, wasm []byte) error {
	c := Candidate{Module: m, Source: s.source, Wasm: wasm}
	if e.cfg.Gate != nil && m.digest != s.past.Digest {
		if err := e.cfg.Gate.Prove(ctx, c); err != nil {
			return fmt.Errorf("kept out by the gate: %w", err)
		}
	}
	if e.cfg.History == nil {
		return nil
	}
	return e.cfg.History.Keep(ctx, c)
}

// changed sets the change that is recorded once the slot is visible.
func (s *slot) changed(o Outcome, by, file, digest, reason string) {
	s.change = &Change{At: time.Now(), Policy: s.source.Name, Path: s.source.Path, Outcome: o, File: file, Digest: digest, By: by, Reason: reason,
		NowFile: s.past.File, NowDigest: s.past.Digest}
	if s.module != nil {
		s.change.NowFile, s.change.NowDigest = s.module.file, s.module.digest
	}
}

// tell records the changes of slots that are now visible.
func (e *Engine) tell(ctx context.Context, slots []*slot) {
	for _, s := range slots {
		if s.change != nil {
			e.record(ctx, *s.change)
		}
	}
}

// recordWall bounds the writing of one change, which happens under the engine's lock.
const recordWall = 5 * time.Second

func (e *Engine) record(ctx context.Context, c Change) {
	e.cfg.Events.Publish(c)
	if e.cfg.History == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWall)
	defer cancel()
	if err := e.cfg.History.Record(ctx, c); err != nil {
		e.cfg.Log.Error("cannot record a change of a policy", "policy", c.Policy, "outcome", c.Outcome, "file", c.File, "error", err)
	}
}
