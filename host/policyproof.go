package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/host/policy/compare"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/store"
)

// What a new module of a policy is put through before it comes into force, at most.
const (
	casesWall  = 2 * time.Minute
	replayWall = 10 * time.Second
	replayMost = 1000 // recorded decisions
)

// policyProof is what keeps a new module of a policy out of force: cases of its own that fail, and recorded decisions that it would make
// otherwise.
type policyProof struct {
	log interface {
		decisionlog.Source
		store.Policies
	}
	cache string // folder of compiled policies
}

// prove is the gate of the engine.
func (p policyProof) prove(ctx context.Context, c policy.Candidate) error {
	return errors.Join(p.cases(ctx, c), p.replay(ctx, c))
}

// proofs tells when a module that was kept out is to be tried again.
func (policyProof) proofs(s policy.Source) string { return author.Proofs(s.Path) }

func (p policyProof) cases(ctx context.Context, c policy.Candidate) error {
	ctx, cancel := context.WithTimeout(ctx, casesWall)
	defer cancel()
	return author.Prove(ctx, c.Source.Path, c.Wasm, p.cache)
}

// replay asks the latest recorded decisions of the policy again. What was recorded counts, whichever module made it. A log that cannot be read or
// compared keeps the module out; one that has no decision of the policy does not.
func (p policyProof) replay(ctx context.Context, c policy.Candidate) error {
	if !c.Source.Replay.On {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, replayWall)
	defer cancel()
	since, err := p.log.LatestDecisionsSince(ctx, c.Source.Name, replayMost)
	if err != nil {
		return fmt.Errorf("replay gate: %w", err)
	}
	if since.IsZero() {
		return nil
	}
	filter := store.DecisionFilter{Policy: c.Source.Name, Since: since, Limit: replayMost, WithoutCalls: true}
	report, err := compare.Run(ctx, decisionlog.Read(ctx, p.log, filter), c.Module, compare.Options{})
	if err != nil {
		return fmt.Errorf("replay gate: %w", err)
	}
	return judge(&report, c.Source.Replay)
}

// judge holds a report against the gate.
func judge(r *compare.Report, gate policy.ReplayGate) error {
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

// example names the largest group of changes.
func example(r *compare.Report, looser bool) string {
	for _, g := range r.Groups {
		if (g.Change == compare.KindAnswer || looser) && (!looser || g.Effect == compare.Looser) {
			return fmt.Sprintf(": %q was %q %d times", g.Is, g.Was, g.Count)
		}
	}
	return ""
}
