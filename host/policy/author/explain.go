package author

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/policy"
)

// Explanation says what one decision depended on.
type Explanation struct {
	Policy  string     `json:"policy"`
	Case    string     `json:"case,omitempty"`
	Kind    string     `json:"kind"`
	Facts   []FactUse  `json:"facts"`
	Calls   []CallMade `json:"calls"`
	Outcome Outcome    `json:"outcome"`
	Was     *Was       `json:"was,omitempty"` // of a recorded decision
}

// FactUse is one fact of the frame, and how the policy used it.
type FactUse struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Use   Use    `json:"use"`
}

// Use says how a decision used a fact.
type Use string

// The uses of a fact.
const (
	Unread  Use = "unread"  // without it the policy takes the very same steps
	Read    Use = "read"    // without it the policy takes other steps to the same answer
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
	find := func(s *Subject) (Case, error) {
		cases, err := s.Cases()
		if err != nil {
			return Case{}, err
		}
		i := slices.IndexFunc(cases, func(c Case) bool { return c.Name == name })
		if i < 0 {
			return Case{}, fmt.Errorf("%s has no case %q: flynn policy dev test %s lists them", dir, name, dir)
		}
		return cases[i], nil
	}
	err = with(ctx, dir, find, func(l *Loading, c Case) error {
		x, err = l.explain(ctx, c, nil)
		return err
	})
	return x, err
}

// ExplainFrame explains the policy's answer to a frame, such as those of the decision log. A frame does not have what the
// policy reads lazily: the tool's arguments, and all of the text but its beginning.
func ExplainFrame(ctx context.Context, dir string, frame []byte) (x Explanation, err error) {
	find := func(s *Subject) (Case, error) {
		kind, err := kindOf(frame)
		if err != nil {
			return Case{}, err
		}
		if !slices.Contains(s.manifest.Kinds, kind) {
			return Case{}, fmt.Errorf("a frame of kind %s, but the policy's kinds are %v", kind, s.manifest.Kinds)
		}
		return Case{Kind: kind, Data: s.manifest.Data, Ask: statedIn(frame)}, nil
	}
	err = with(ctx, dir, find, func(l *Loading, c Case) error {
		x, err = l.explain(ctx, c, frame)
		return err
	})
	return x, err
}

func (l *Loading) explain(ctx context.Context, c Case, frame []byte) (Explanation, error) {
	return explain(l.Name(), c, l.ask(ctx, c, frame), func(frame []byte) policy.Record { return l.ask(ctx, c, frame) })
}

// Was is a recorded decision, and the module that made it.
type Was struct {
	Outcome    Outcome `json:"outcome"`
	Digest     string  `json:"digest"`         // of the module, its data and limits
	File       string  `json:"file,omitempty"` // SHA-256 of its file; rows of an older flynn have none
	SameModule bool    `json:"same_module"`    // it is the module that is asked now, with the same data and limits
}

// ExplainRecord explains what the policy answers to a recorded decision. The record has all that the policy could see.
func ExplainRecord(ctx context.Context, source policy.Source, record policy.Record) (x Explanation, err error) {
	m, err := policy.Open(ctx, source)
	if err != nil {
		return Explanation{}, fmt.Errorf("load policy %s: %w", source.Name, err)
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	first, err := m.Replay(ctx, record)
	if err == nil && first.Lacks != "" {
		err = fmt.Errorf("the log does not hold the decision's whole %s, which the policy asks for", first.Lacks)
	}
	if err != nil {
		return Explanation{}, err
	}
	x, err = explain(source.Name, Case{Kind: record.Kind}, first.Is, func(frame []byte) policy.Record {
		again, err := m.ReplayFrame(ctx, record, frame)
		if err != nil { // the frame could be read before
			again.Is.Error = err.Error()
		}
		return again.Is
	})
	x.Was = &Was{Outcome: outcomeOf(record), Digest: record.Digest, File: record.File, SameModule: record.Digest == m.Digest()}
	return x, err
}

// explain asks again without each fact in turn. Fuel counts every step that a module takes, so a module
// that never looks at a fact spends exactly as much without it. This works for every language and needs no debugger.
func explain(name string, c Case, base policy.Record, again func(frame []byte) policy.Record) (Explanation, error) {
	x := Explanation{Policy: name, Case: c.Name, Kind: c.Kind, Outcome: outcomeOf(base)}
	x.Calls = CallsOf(base.Calls)
	list, err := entries(base.Frame)
	if err != nil {
		return x, err
	}
	x.Facts = make([]FactUse, len(list))
	for i, e := range list {
		x.Facts[i] = FactUse{e.name(), e.String(), compareUse(base, again(without(base.Frame, e)))}
	}
	return x, nil
}

// CallsOf returns calls from a policy to the host for people.
func CallsOf(calls []policy.HostCall) (made []CallMade) {
	for _, call := range calls {
		made = append(made, CallMade{call.Name, call.Arguments(), call.Ret, policy.OneLine(call.Data)})
	}
	return made
}

func compareUse(with, without policy.Record) Use {
	switch {
	case !outcomeOf(with).Same(outcomeOf(without)):
		return Decides
	case steps(with) != steps(without) || !slices.EqualFunc(with.Calls, without.Calls, sameCall):
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

// steps is the fuel that a policy spent on deciding. A policy in Rego gets all facts at once and reads them before it decides; what
// that takes depends on every fact, and says nothing about those it looks at.
func steps(r policy.Record) int64 {
	fuel := r.Fuel
	for _, c := range r.Calls {
		if c.Name == policy.InputCall {
			fuel -= int64(c.Ret)
		}
	}
	return fuel
}
