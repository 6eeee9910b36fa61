package policy

import (
	"context"
	"fmt"
	"time"
)

// Candidate is a module that was verified, metered and compiled, and is not in force.
type Candidate struct {
	*Module
	Source Source
	Wasm   []byte // the file that it was made of
}

// Gate decides whether a module may come into force.
type Gate interface {
	// Prove returns why a module may not come into force. It may ask the module.
	Prove(ctx context.Context, c Candidate) error
	// Proofs names the state of what Prove asks of a policy's modules, such as their test cases: a file that was kept out is tried again
	// when that changes.
	Proofs(s Source) string
}

// GateFunc is a Gate that always asks the same.
type GateFunc func(ctx context.Context, c Candidate) error

// Prove implements Gate.
func (f GateFunc) Prove(ctx context.Context, c Candidate) error { return f(ctx, c) }

// Proofs implements Gate.
func (f GateFunc) Proofs(Source) string { return "" }

// History remembers over restarts what came into force. An engine without one forgets, and cannot roll back.
type History interface {
	// Recall tells how a policy was left.
	Recall(ctx context.Context, policy string) (Past, error)
	// Keep stores a module before it comes into force. A module that cannot be kept does not: nobody could
	// tell later what had decided.
	Keep(ctx context.Context, c Candidate) error
	// Fetch returns a kept module by the SHA-256 of its file.
	Fetch(ctx context.Context, file string) ([]byte, error)
	// Record notes a change. It comes after the fact, and its error changes nothing.
	Record(ctx context.Context, c Change) error
}

// Past is how a policy was left.
type Past struct {
	File    string // SHA-256 of the module that was in force; "" is none
	Digest  string // of that module, its data and its limits
	Refused string // such a digest, of a module that failed in force and is not tried again
	Pin     Pin
}

// Pin keeps a module of the archive in force for as long as the policy's file stays as it was.
type Pin struct {
	File string // SHA-256 of the module in the archive; "" is no pin
	Over string // SHA-256 of the file that it stands in for
}

// Outcome is what became of a module.
type Outcome string

// The outcomes of a change.
const (
	OutcomeInForce    Outcome = "in force"
	OutcomeRefused    Outcome = "refused"     // Reason says why; what was in force stays
	OutcomeReverted   Outcome = "reverted"    // it failed too often in force; the one before it is back
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
	File      string // SHA-256 of the module that it is about; "" when it could not be read
	Digest    string // of that module, its data and its limits, if it came that far
	Over      string // of a roll-back: the file that is passed over
	NowFile   string // what is in force after it; "" is nothing
	NowDigest string
	By        string
	Reason    string
}

// Leaves tells how a policy is left by the last of its changes.
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

// recall fills in how the policy was left, once.
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

// prove puts a loaded module through the gate and into the archive. One that was in force when the engine ended has passed the
// gate already.
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

// changed notes what the ledger will be told when the slot is shown.
func (s *slot) changed(o Outcome, by, file, digest, reason string) {
	s.change = &Change{At: time.Now(), Policy: s.source.Name, Path: s.source.Path, Outcome: o, File: file, Digest: digest, By: by, Reason: reason,
		NowFile: s.past.File, NowDigest: s.past.Digest}
	if s.module != nil {
		s.change.NowFile, s.change.NowDigest = s.module.file, s.module.digest
	}
}

// tell records what became of the slots, which are shown by now.
func (e *Engine) tell(ctx context.Context, slots []*slot) {
	for _, s := range slots {
		if s.change != nil {
			e.record(ctx, *s.change)
		}
	}
}

// recordWall bounds the writing of one change; it is made under the engine's lock.
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
