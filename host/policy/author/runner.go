package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/cover"
)

// Report is what came of a policy's cases.
type Report struct {
	Policy string        `json:"policy"`
	Module string        `json:"module"`
	SHA256 string        `json:"sha256"`
	Passed int           `json:"passed"`
	Failed int           `json:"failed"`
	Took   time.Duration `json:"took_ns"`
	Cases  []CaseResult  `json:"cases"`

	Coverage *cover.Report `json:"coverage,omitempty"` // of TestCovered
}

// CaseResult is what came of one case.
type CaseResult struct {
	File    string  `json:"file"`
	Name    string  `json:"name"`
	Kind    string  `json:"kind"`
	Passed  bool    `json:"passed"`
	Diffs   []Diff  `json:"diffs,omitempty"`
	Outcome Outcome `json:"outcome"`

	trace string // as a golden file has it
}

// asker asks one module, loaded with one set of data.
type asker interface {
	ask(ctx context.Context, c Case) answered
	// askFrame asks with a frame as it is; what the policy reads lazily comes from the case.
	askFrame(ctx context.Context, c Case, frame []byte) answered
	Close() error
}

// answered is a decision: what it means, and how it came about.
type answered struct {
	outcome Outcome
	record  policy.Record
}

// opener loads the module with a case's data.
type opener func(ctx context.Context, c Case) (asker, error)

// Test asks the built module in dir every case whose name the pattern matches; nil matches all. An error means that the
// cases could not be asked; cases that fail are in the report.
func Test(ctx context.Context, dir string, only *regexp.Regexp) (report Report, err error) {
	p, err := load(dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	return p.test(ctx, dir, only, p.openCase)
}

// test asks the module the cases in dir.
func (p *loaded) test(ctx context.Context, dir string, only *regexp.Regexp, open opener) (Report, error) {
	cases, err := LoadCases(dir, p.manifest)
	if err != nil {
		return Report{}, err
	}
	report := Report{Policy: p.manifest.Name, Module: p.path, SHA256: p.sha256}
	begin := time.Now()
	report.Cases, err = runCases(ctx, open, matching(cases, only))
	report.Took = time.Since(begin)
	err = errors.Join(err, compareTraces(dir, report.Cases))
	for _, c := range report.Cases {
		if c.Passed {
			report.Passed++
		} else {
			report.Failed++
		}
	}
	return report, err
}

func matching(cases []Case, only *regexp.Regexp) []Case {
	if only == nil {
		return cases
	}
	var some []Case
	for _, c := range cases {
		if only.MatchString(c.Name) {
			some = append(some, c)
		}
	}
	return some
}

// runCases asks the cases in order. The module is loaded once for each set of data that they bring.
func runCases(ctx context.Context, open opener, cases []Case) (results []CaseResult, err error) {
	loaded := map[string]asker{}
	defer func() {
		for _, a := range loaded {
			err = errors.Join(err, a.Close())
		}
	}()
	for _, c := range cases {
		data, err := json.Marshal(c.Data)
		if err != nil {
			return results, err
		}
		key := string(data)
		a, ok := loaded[key]
		if !ok {
			if a, err = open(ctx, c); err != nil {
				return results, fmt.Errorf("load the policy for case %q: %w", c.Name, err)
			}
			loaded[key] = a
		}
		got := a.ask(ctx, c)
		diffs := c.Want.diff(got.outcome)
		results = append(results, CaseResult{c.File, c.Name, c.Kind, len(diffs) == 0, diffs, got.outcome, trace(c, got)})
	}
	return results, nil
}
