package author

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/policy"
)

// Explanation is one decision taken apart.
type Explanation struct {
	Policy  string     `json:"policy"`
	Case    string     `json:"case,omitempty"`
	Kind    string     `json:"kind"`
	Facts   []FactUse  `json:"facts"`
	Calls   []CallMade `json:"calls"`
	Outcome Outcome    `json:"outcome"`
	Was     *Was       `json:"was,omitempty"` // of a recorded decision
}

// FactUse is one fact of the frame, and what it was to the policy.
type FactUse struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Use   Use    `json:"use"`
}

// Use says what a fact was to a decision.
type Use string

// The uses of a fact.
const (
	Unread  Use = "unread"  // without it the policy takes the very same steps
	Read    Use = "read"    // without it the policy takes other steps, to the same answer
	Decides Use = "decides" // without it the answer is another one
)

// CallMade is one call from the policy to the host.
type CallMade struct {
	Name   string `json:"name"`
	Args   string `json:"args,omitempty"`
	Return int32  `json:"return"`
	Data   string `json:"data,omitempty"`
}

// ExplainCase explains the policy's answer to one of its cases.
func ExplainCase(ctx context.Context, dir, name string) (x Explanation, err error) {
	p, err := load(dir)
	if err != nil {
		return Explanation{}, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	cases, err := LoadCases(dir, p.manifest)
	if err != nil {
		return Explanation{}, err
	}
	i := slices.IndexFunc(cases, func(c Case) bool { return c.Name == name })
	if i < 0 {
		return Explanation{}, fmt.Errorf("%s has no case %q: flynn policy test %s lists them", dir, name, dir)
	}
	x, err = explain(ctx, p.openCase, cases[i], func(a asker) answered { return a.ask(ctx, cases[i]) })
	x.Policy = p.manifest.Name
	return x, err
}

// ExplainFrame explains the policy's answer to a frame, such as the log of decisions keeps. A frame does not hold what the
// policy reads lazily: the tool's arguments, and the text behind its beginning, are absent.
func ExplainFrame(ctx context.Context, dir string, frame []byte) (x Explanation, err error) {
	p, err := load(dir)
	if err != nil {
		return Explanation{}, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	kind, err := kindOf(frame)
	if err != nil {
		return Explanation{}, err
	}
	if !slices.Contains(p.manifest.Kinds, kind) {
		return Explanation{}, fmt.Errorf("a frame of kind %s, but the policy's kinds are %v", kind, p.manifest.Kinds)
	}
	c := Case{Kind: kind, Data: p.manifest.Data, Ask: statedIn(frame)}
	x, err = explain(ctx, p.openCase, c, func(a asker) answered { return a.askFrame(ctx, c, frame) })
	x.Policy = p.manifest.Name
	return x, err
}

func explain(ctx context.Context, open opener, c Case, first func(asker) answered) (x Explanation, err error) {
	a, err := open(ctx, c)
	if err != nil {
		return Explanation{}, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	base := first(a)
	x = Explanation{Case: c.Name, Kind: c.Kind, Outcome: base.outcome}
	for _, call := range base.record.Calls {
		x.Calls = append(x.Calls, callMade(call))
	}
	x.Facts, err = uses(ctx, a, c, base)
	return x, err
}

// uses asks the policy again without each fact in turn. Fuel counts every step that a module takes, so a module
// that never looks at a fact spends exactly as much without it; no language and no debugger is needed to tell.
func uses(ctx context.Context, a asker, c Case, base answered) ([]FactUse, error) {
	list, err := entries(base.record.Frame)
	if err != nil {
		return nil, err
	}
	facts := make([]FactUse, len(list))
	for i, e := range list {
		again := a.askFrame(ctx, c, without(base.record.Frame, e))
		facts[i] = FactUse{e.name(), e.String(), compareUse(base, again)}
	}
	return facts, nil
}

func compareUse(with, without answered) Use {
	a, b := with.outcome, without.outcome
	a.Fuel, a.Took, b.Fuel, b.Took = 0, 0, 0, 0
	switch {
	case a != b:
		return Decides
	case steps(with.record) != steps(without.record) || !slices.EqualFunc(with.record.Calls, without.record.Calls, sameCall):
		return Read
	}
	return Unread
}

func sameCall(a, b policy.HostCall) bool {
	if a.Name == policy.InputCall && b.Name == policy.InputCall {
		return true
	}
	return a.Name == b.Name && a.Ret == b.Ret && string(a.Args) == string(b.Args) && string(a.Data) == string(b.Data)
}
