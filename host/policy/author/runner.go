package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/policy/cover"
)

// Report is the result of a policy's cases.
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

// CaseResult is the result of one case.
type CaseResult struct {
	File    string  `json:"file"`
	Name    string  `json:"name"`
	Kind    string  `json:"kind"`
	Passed  bool    `json:"passed"`
	Diffs   []Diff  `json:"diffs,omitempty"`
	Outcome Outcome `json:"outcome"`

	trace string // as a golden file has it
}

// Test asks the built module in dir every case whose name the pattern matches; nil matches all. An error means that the
// cases could not be asked; cases that fail are in the report.
func Test(ctx context.Context, dir string, only *regexp.Regexp) (report Report, err error) {
	s, err := OpenSubject(dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.test(ctx, only, nil)
}

// TestModule is Test for a module that is not the folder's.
func TestModule(ctx context.Context, dir string, wasm []byte) (report Report, err error) {
	m, err := LoadManifest(dir)
	if err != nil {
		return Report{}, err
	}
	f, err := os.CreateTemp("", "flynn-candidate-*.wasm")
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.Write(wasm)
	if err = errors.Join(err, f.Close()); err != nil {
		return Report{}, err
	}
	s, err := subjectAt(m, dir, f.Name(), wasm)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.test(ctx, nil, nil)
}

// test asks the module the cases. Each loading of the module goes to counted, if there is one, before it is closed.
func (s *Subject) test(ctx context.Context, only *regexp.Regexp, counted *tally) (Report, error) {
	cases, err := s.Cases()
	if err != nil {
		return Report{}, err
	}
	if only != nil {
		cases = slices.DeleteFunc(cases, func(c Case) bool { return !only.MatchString(c.Name) })
	}
	report := Report{Policy: s.manifest.Name, Module: s.path, SHA256: s.sha256}
	begin := time.Now()
	report.Cases, err = s.runCases(ctx, cases, counted)
	report.Took = time.Since(begin)
	err = errors.Join(err, compareTraces(s.dir, report.Cases))
	for _, c := range report.Cases {
		if c.Passed {
			report.Passed++
		} else {
			report.Failed++
		}
	}
	return report, err
}

// runCases asks the cases in order. The module is loaded once for each set of data among them.
func (s *Subject) runCases(ctx context.Context, cases []Case, counted *tally) (results []CaseResult, err error) {
	loaded := map[string]*Loading{}
	defer func() {
		for _, l := range loaded {
			counted.add(l.Module)
			err = errors.Join(err, l.Close())
		}
	}()
	for _, c := range cases {
		data, err := json.Marshal(c.Data)
		if err != nil {
			return results, err
		}
		l, ok := loaded[string(data)]
		if !ok {
			if l, err = s.loadCase(ctx, c); err != nil {
				return results, fmt.Errorf("load the policy for case %q: %w", c.Name, err)
			}
			loaded[string(data)] = l
		}
		got, record := l.Ask(ctx, c)
		diffs := c.Want.diff(got)
		results = append(results, CaseResult{c.File, c.Name, c.Kind, len(diffs) == 0, diffs, got, trace(c, got, record)})
	}
	return results, nil
}
