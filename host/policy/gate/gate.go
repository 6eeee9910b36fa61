// Package gate decides whether a new module of a policy may come into force: the test cases beside the policy's file have to pass, and
// recorded decisions may change only as far as the configuration allows.
//
// Start with Gate. Package policy calls it before it puts a module in force; this package does neither load modules nor put them in force.
package gate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/host/policy/compare"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/policy/journal"
)

// Bounds of the proofs of one module.
const (
	casesWall  = 2 * time.Minute
	replayWall = 10 * time.Second
	replayMost = 1000 // recorded decisions
)

// Gate refuses modules whose cases fail, or that would change recorded decisions too much.
type Gate struct {
	// Log has the recorded decisions.
	Log Log
	// Cache is the folder of compiled policies.
	Cache string
}

var _ policy.Gate = Gate{}

// Log is the decision log.
type Log interface {
	decisionlog.Source
	// LatestDecisionsSince is that of journal.Changes.
	LatestDecisionsSince(ctx context.Context, policy string, n int) (time.Time, error)
}

// Prove implements policy.Gate.
func (p Gate) Prove(ctx context.Context, c policy.Candidate) error {
	return errors.Join(p.cases(ctx, c), p.replay(ctx, c))
}

// Proofs implements policy.Gate.
func (Gate) Proofs(s policy.Source) string { return author.Proofs(s.Path) }

func (p Gate) cases(ctx context.Context, c policy.Candidate) error {
	ctx, cancel := context.WithTimeout(ctx, casesWall)
	defer cancel()
	return author.Prove(ctx, c.Source.Path, c.Wasm, p.Cache)
}

// replay repeats the latest recorded decisions of the policy, whichever module made them. The module is refused if the log cannot be read or
// compared, and accepted if it has no decision of the policy.
func (p Gate) replay(ctx context.Context, c policy.Candidate) error {
	if !c.Source.Replay.On {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, replayWall)
	defer cancel()
	since, err := p.Log.LatestDecisionsSince(ctx, c.Source.Name, replayMost)
	if err != nil {
		return fmt.Errorf("replay gate: %w", err)
	}
	if since.IsZero() {
		return nil
	}
	filter := journal.DecisionFilter{Policy: c.Source.Name, Since: since, Limit: replayMost}
	report, err := decisionlog.Replay(ctx, p.Log, filter, c.Module, compare.Options{})
	if err != nil {
		return fmt.Errorf("replay gate: %w", err)
	}
	return check(&report, c.Source.Replay)
}

// check compares a report with the bounds of the configuration.
func check(r *compare.Report, gate policy.ReplayGate) error {
	looser := float64(r.Looser) / float64(max(r.Compared, 1))
	switch {
	case r.Compared == 0:
		return fmt.Errorf("replay gate: none of %d recorded decisions can be asked again%s", r.Read, skipped(r))
	case r.Share() > gate.Change:
		return fmt.Errorf("replay gate: %d of %d recorded decisions change (%.3g%%), max_change is %.3g%%%s",
			r.Changed, r.Compared, 100*r.Share(), 100*gate.Change, example(r, false))
	case looser > gate.Loosened:
		return fmt.Errorf("replay gate: %d of %d recorded decisions are loosened (%.3g%%), max_loosened is %.3g%%%s",
			r.Looser, r.Compared, 100*looser, 100*gate.Loosened, example(r, true))
	}
	return nil
}

func skipped(r *compare.Report) string {
	if len(r.Skipped) == 0 {
		return ""
	}
	return ": " + r.Skipped[0].Why
}

// example describes the largest group of changes.
func example(r *compare.Report, looser bool) string {
	for _, g := range r.Groups {
		if (g.Change == compare.KindAnswer || looser) && (!looser || g.Effect == compare.Looser) {
			return fmt.Sprintf(": %q was %q %d times", g.Is, g.Was, g.Count)
		}
	}
	return ""
}
