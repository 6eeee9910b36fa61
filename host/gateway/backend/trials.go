package backend

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/observe/shadowlog"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/host/policy/compare"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
)

// Trials tries modules of policies beside the chain. Start with NewTrials.
type Trials struct {
	policies Policies
	log      TrialLog
	wall     time.Duration
	running  atomic.Bool
}

// TrialLog has the recorded decisions, and those of shadow policies.
type TrialLog interface {
	decisionlog.Source
	shadowlog.Source
}

var _ gateway.PolicyTrials = (*Trials)(nil)

// trialWall bounds a trial. It is shorter than the gateway's bound of a request, so that what was found by then is answered.
const trialWall = 18 * time.Second

// NewTrials returns the trials of the policies of a chain.
func NewTrials(p Policies, log TrialLog) *Trials {
	return &Trials{policies: p, log: log, wall: trialWall}
}

// alone lets one trial run at a time: they compute as long as they are allowed to.
func (t *Trials) alone() (done func(), err error) {
	if !t.running.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("%w: another replay or run of cases is under way; wait for it", store.ErrConflict)
	}
	return func() { t.running.Store(false) }, nil
}

// ReplayPolicy implements gateway.PolicyTrials. The module has a runtime of its own and is asked by one worker, so that live decisions do not wait
// for it; each answer is bounded by the policy's own limits.
func (t *Trials) ReplayPolicy(ctx context.Context, name string, since time.Time, module io.Reader) (gateway.PolicyReplay, error) {
	none := gateway.PolicyReplay{}
	source, err := t.policies.Engine.Source(name)
	if err != nil {
		return none, ofPolicy(err)
	}
	done, err := t.alone()
	if err != nil {
		return none, err
	}
	defer done()
	wasm, err := readModule(module)
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.wall)
	defer cancel()
	m, err := candidate(ctx, source, name, wasm)
	if err != nil {
		return none, err
	}
	defer m.Close()
	filter := journal.DecisionFilter{Policy: name, Since: since, Until: time.Now()}
	report, err := decisionlog.Replay(ctx, t.log, filter, m, compare.Options{Workers: 1, Examples: gateway.MaxDifferences})
	cut := ""
	if errors.Is(err, context.DeadlineExceeded) {
		cut, err = fmt.Sprintf("the time of %s was over after %d decisions, the oldest ones", t.wall, report.Read), nil
	}
	out := shown(report, cut)
	if err == nil {
		out.Cases, out.NoCases = t.candidateCases(ctx, name, wasm)
	}
	return out, err
}

// candidateCases asks a module the cases of a policy, or says why they cannot be asked.
func (t *Trials) candidateCases(ctx context.Context, name string, wasm []byte) (*author.Report, string) {
	path, err := t.policies.path(ctx, name)
	dir := ""
	if err == nil {
		dir, _, err = author.FolderOf(path)
	}
	if err != nil {
		return nil, err.Error()
	}
	report, err := author.TestModule(ctx, dir, wasm)
	if err != nil {
		return nil, err.Error()
	}
	report.Module = "" // of a moment
	report.Cases = report.Cases[:min(len(report.Cases), maxCases)]
	return &report, ""
}

// PutPolicy implements gateway.PolicyTrials. The file is what is in force after a restart, so it is replaced, and comes back if the module is
// refused.
func (t *Trials) PutPolicy(ctx context.Context, name string, module io.Reader, by string) (none gateway.PolicyStatus, err error) {
	engine := t.policies.Engine
	source, err := engine.Source(name)
	if err != nil {
		return none, ofPolicy(err)
	}
	if source.Installed != nil {
		return none, store.Conflict("policy " + name + " is an installed one, which has a signature: upgrade it")
	}
	done, err := t.alone()
	if err != nil {
		return none, err
	}
	defer done()
	wasm, err := readModule(module)
	if err != nil {
		return none, err
	}
	m, err := candidate(ctx, source, name, wasm)
	if err != nil {
		return none, err
	}
	m.Close()
	old, err := os.ReadFile(source.Path)
	if err != nil {
		return none, store.Conflict("replace the file of policy " + name + ": " + err.Error())
	}
	ctx = context.WithoutCancel(ctx) // who has gone away leaves no file behind that is not in force
	put := func(wasm []byte) error {
		_, err := engine.Put(ctx, name, func() error { return durable.WriteFile(source.Path, wasm, 0o644) }, by)
		return err
	}
	if err := put(wasm); err != nil {
		return none, store.Conflict("replace the file of policy " + name + ": " + err.Error())
	}
	st, err := t.policies.Policy(ctx, name)
	if sum := sha256.Sum256(wasm); err == nil && st.File != hex.EncodeToString(sum[:]) {
		err = store.Conflict("the module is not put in force: " + st.Detail)
	}
	if err != nil {
		err = errors.Join(err, put(old))
	}
	return st.PolicyStatus, err
}

// candidate opens a module as one of a policy.
func candidate(ctx context.Context, source policy.Source, name string, wasm []byte) (*policy.Module, error) {
	m, err := policy.OpenCandidate(ctx, source, wasm)
	if err != nil {
		return nil, gateway.BadRequest("this is no module for policy " + name + ": " + err.Error())
	}
	return m, nil
}

// readModule reads the body of a module.
func readModule(module io.Reader) ([]byte, error) {
	wasm, err := io.ReadAll(io.LimitReader(module, gateway.MaxModule+1))
	if err != nil {
		return nil, err
	}
	if len(wasm) > gateway.MaxModule {
		return nil, fmt.Errorf("%w: a module has at most %d bytes", gateway.ErrNotKept, gateway.MaxModule)
	}
	return wasm, nil
}

// Bounds of a replay that is shown.
const (
	maxGroups        = 100
	maxGroupExamples = 3
)

// shown bounds a report whose groups have up to MaxDifferences examples.
func shown(r compare.Report, cut string) gateway.PolicyReplay {
	out := gateway.PolicyReplay{Cut: cut, Differences: []compare.Difference{}}
	for i := range r.Groups {
		g := &r.Groups[i]
		for _, e := range g.Examples {
			out.Differences = append(out.Differences, compare.Difference{Key: g.Key, Example: e})
		}
		g.Examples = g.Examples[:min(len(g.Examples), maxGroupExamples)]
	}
	slices.SortStableFunc(out.Differences, func(a, b compare.Difference) int { return cmp.Compare(a.ID, b.ID) })
	out.Differences = out.Differences[:min(len(out.Differences), gateway.MaxDifferences)]
	if n := len(r.Groups); n > maxGroups {
		r.Groups, out.MoreGroups = r.Groups[:maxGroups], n-maxGroups
	}
	out.Report = r
	return out
}

// maxCases bounds the cases of an answer.
const maxCases = 1000

// RunPolicyCases implements gateway.PolicyTrials.
func (t *Trials) RunPolicyCases(ctx context.Context, name string) (author.Report, error) {
	path, err := t.policies.path(ctx, name)
	if err != nil {
		return author.Report{}, ofPolicy(err)
	}
	dir, _, err := author.FolderOf(path)
	if err != nil {
		return author.Report{}, ofPolicy(err)
	}
	done, err := t.alone()
	if err != nil {
		return author.Report{}, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, t.wall)
	defer cancel()
	report, err := author.Test(ctx, dir, nil)
	if err != nil {
		return author.Report{}, as(err, store.ErrConflict) // the folder is not in order
	}
	report.Cases = report.Cases[:min(len(report.Cases), maxCases)]
	return report, nil
}

// ShadowReports implements gateway.PolicyTrials.
func (t *Trials) ShadowReports(ctx context.Context, f journal.ShadowFilter, examples int) ([]shadowlog.Report, error) {
	if examples == 0 {
		examples = -1 // none; 0 is the usual number
	}
	reports, err := shadowlog.Reports(ctx, t.log, f, examples)
	for i := range reports {
		reports[i].Groups = reports[i].Groups[:min(len(reports[i].Groups), maxGroups)]
	}
	return reports[:min(len(reports), maxGroups)], err
}
