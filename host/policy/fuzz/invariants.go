package fuzz

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
)

// The invariants.
const (
	fails     = "fails"     // the policy fails
	unstable  = "unstable"  // two pristine instances differ in answer or fuel
	remembers = "remembers" // an instance that has answered other questions gives another answer
	malformed = "malformed" // malformed arguments are restricted less
	unknown   = "unknown"   // an unknown value is treated better than the least one
)

// invariant checks the answer to a question. It returns nil if the invariant holds.
type invariant func(ctx context.Context, in input, got author.Outcome, r policy.Record) *Find

// check reports the first find of each sort, and shrinks it.
func (s *session) check(ctx context.Context, in input, got author.Outcome, r policy.Record, holds invariant) {
	f := holds(ctx, in, got, r)
	if f == nil {
		return
	}
	key := fmt.Sprint(f.Invariant, in.Kind, f.sort)
	if s.known[key] {
		return
	}
	s.known[key] = true
	if f.Invariant != remembers { // the instance's state is not part of the question, so it cannot be shrunk
		s.shrink(ctx, in, func(in input) bool {
			got, r := s.ask(ctx, in)
			smaller := holds(ctx, in, got, r)
			if smaller == nil || smaller.sort != f.sort {
				return false
			}
			f = smaller
			return true
		})
	}
	f.Case, f.Changes = in.origin.Name, changes(*in.origin, f.input)
	f.Answer.Took = 0
	if f.Than != nil {
		f.Than.Took = 0
	}
	s.report.Finds = append(s.report.Finds, *f)
}

// fails finds every failure. Time counts only if the policy is always slow, because a busy machine can be slow once.
func (s *session) fails(ctx context.Context, in input, got author.Outcome, r policy.Record) *Find {
	f := &Find{Invariant: fails, What: got.Error, Answer: got, input: in, sort: got.Class()}
	if f.sort != "" {
		return f
	}
	for range 4 {
		if r.Took <= s.wall {
			return nil
		}
		_, r = in.target.warm.Ask(ctx, in.Case) // without counting blocks
	}
	f.sort, f.What = string(policy.ClassDeadline), fmt.Sprintf("deadline: more than %v", s.wall)
	return f
}

// unstable asks another pristine instance, which has to give the same answer for the same fuel.
func (s *session) unstable(ctx context.Context, in input, got author.Outcome, r policy.Record) *Find {
	again, second := s.ask(ctx, in)
	if second.Fuel == r.Fuel && got.Same(again) || got.Class() == string(policy.ClassDeadline) {
		return nil
	}
	return &Find{Invariant: unstable, What: "asked twice, it gives another answer or takes other fuel", Answer: again, Than: &got, input: in}
}

// remembers asks an instance that has answered other questions.
func (s *session) remembers(ctx context.Context, in input, got author.Outcome, r policy.Record) *Find {
	warm, second := in.target.warm.Ask(ctx, in.Case)
	if second.Fuel != r.Fuel {
		s.report.WarmFuel++
	}
	if got.Same(warm) || got.Error != "" || warm.Error != "" {
		return nil
	}
	return &Find{Invariant: remembers, What: "after other questions it gives another answer", Answer: warm, Than: &got, input: in}
}

// looser reports whether an answer restricts less than another.
func looser(kind string, a, than author.Outcome) bool {
	switch {
	case a.Error != "" || than.Error != "":
		return false // a failure restricts most, and is a find of its own
	case kind == policy.KindRoute:
		return than.Answer == "drop" && a.Answer != "drop"
	case than.Deny || a.Deny:
		return than.Deny && !a.Deny
	}
	return than.Ask && !a.Ask || than.Sandbox && !a.Sandbox
}

// variation makes a question from another one. Its answer must not be better than those to all of the questions that than makes.
type variation struct {
	invariant, sort, what string
	make                  change
	than                  []change
	better                func(ctx context.Context, in input, got, than author.Outcome) bool
	expected              func(in input, got author.Outcome) bool // the author's cases show that answer for such a question; may be nil
}

// change changes a case and reports whether it could.
type change func(author.Case) (author.Case, bool)

// holds is the invariant of a variation.
func (s *session) holds(v variation) invariant {
	return func(ctx context.Context, in input, _ author.Outcome, _ policy.Record) *Find {
		varied, ok := v.make(in.Case)
		if !ok {
			return nil
		}
		f := &Find{Invariant: v.invariant, What: v.what, sort: v.sort, input: newInput(varied, in.origin, in.target)}
		f.Answer, _ = s.ask(ctx, f.input)
		s.novel(in.target) // marks its blocks as seen
		if f.Answer.Error != "" || v.expected != nil && v.expected(in, f.Answer) {
			return nil
		}
		for _, base := range v.than {
			held := in
			held.Case, _ = base(in.Case)
			than, _ := s.ask(ctx, held)
			if !v.better(ctx, in, f.Answer, than) {
				return nil
			}
			f.Than = &than
		}
		return f
	}
}

// variations returns the variations of a question. r is the record of its answer.
func (s *session) variations(in input, r policy.Record) []variation {
	strict := func(_ context.Context, in input, got, than author.Outcome) bool { return looser(in.Kind, got, than) }
	list := s.unknownValues("Role", "role", "the role %q is treated better than guest", []string{"guest"}, s.betterThanGuest,
		"", "Owner", "OWNER", "owner ", " owner", "owner\x00", "owners", "own", "оwner", "admin", "members", "Member")
	list = append(list, s.unknownValues("Door", "door", "the door %q is treated better than every door that there is", known("Door"), strict,
		"", "Terminal", "terminal ", "console")...)
	list = append(list, s.unknownValues("ConversationKind", "kind", "the conversation's kind %q is treated better than every kind that there is",
		known("ConversationKind"), strict, "", "DM", "dm ", "broadcast")...)
	if in.Kind == policy.KindTool {
		for _, v := range s.malformations(in, r) {
			v.invariant, v.better = malformed, strict
			v.than = []change{func(c author.Case) (author.Case, bool) { return c, true }}
			list = append(list, v)
		}
	}
	return list
}

// unknownValues returns variations with values that a fact does not have, some of which resemble those that it has.
func (s *session) unknownValues(field, sort, what string, than []string, better func(context.Context, input, author.Outcome, author.Outcome) bool,
	values ...string) (list []variation) {
	var bases []change
	for _, value := range than {
		bases = append(bases, withFact(field, value))
	}
	for _, value := range values {
		list = append(list, variation{invariant: unknown, sort: sort, what: fmt.Sprintf(what, value), make: withFact(field, value), than: bases, better: better})
	}
	return list
}

func withFact(field, value string) change {
	return func(c author.Case) (author.Case, bool) {
		c.Ask = c.Ask.Clone()
		reflect.ValueOf(&c.Ask).Elem().FieldByName(field).SetString(value)
		return c, true
	}
}

// betterThanGuest also finds a route that owners or members get and guests do not.
func (s *session) betterThanGuest(ctx context.Context, in input, got, guest author.Outcome) bool {
	if in.Kind != policy.KindRoute || looser(in.Kind, got, guest) || got.Same(guest) || got.Answer != "agent" {
		return looser(in.Kind, got, guest)
	}
	return slices.ContainsFunc([]string{"owner", "member"}, func(role string) bool {
		privileged := in
		privileged.Case, _ = withFact("Role", role)(in.Case)
		o, _ := s.ask(ctx, privileged)
		return o.Agent == got.Agent && o.Agent != guest.Agent
	})
}

// malformations returns variations with malformed arguments: another type at a pointer that the policy asked for, no value, or a duplicate
// key. Types that the author's own cases use are not malformed.
func (s *session) malformations(in input, r policy.Record) (list []variation) {
	var pointers []string
	for _, call := range r.Calls {
		if p := string(call.Args); (call.Name == "arg" || call.Name == "arg_kind") && len(p) <= 256 && !slices.Contains(pointers, p) {
			pointers = append(pointers, p)
		}
	}
	for _, p := range pointers[:min(len(pointers), 8)] {
		add := func(kind string, change func(json.RawMessage) (json.RawMessage, bool)) {
			list = append(list, variation{
				sort: p + " " + kind, what: fmt.Sprintf("%s is %s, and the call is restricted less", p, kind),
				make: func(c author.Case) (_ author.Case, ok bool) {
					c.Args, ok = change(c.Args)
					return c, ok
				},
				expected: func(in input, got author.Outcome) bool { return s.shown(in, p, kind, got) },
			})
		}
		replace := func(kind string, to any) {
			add(kind, func(args json.RawMessage) (json.RawMessage, bool) { return replaceAt(args, p, to) })
		}
		for _, other := range []any{nil, true, json.Number("7"), "", []any{}, map[string]any{}} {
			if kindOf(other) != kindAt(in.Args, p) {
				replace(kindOf(other), other)
			}
		}
		add("array", func(args json.RawMessage) (json.RawMessage, bool) {
			v, _ := get(decode(args), steps(p))
			return replaceAt(args, p, []any{v})
		})
		replace("absent", removed{})
		if path := steps(p); len(path) > 0 {
			for _, second := range []string{"null", "[]", "{}"} {
				add("twice, the second time "+second, func(args json.RawMessage) (json.RawMessage, bool) { return duplicate(args, path[0], second) })
			}
		}
	}
	return list
}

// shown reports whether a case with a value of that kind at the pointer wants an answer that restricts no more. A case for one role holds for
// those above it.
func (s *session) shown(in input, pointer, kind string, got author.Outcome) bool {
	return slices.ContainsFunc(s.cases, func(c input) bool {
		w := author.Outcome{Error: c.Want.Error, Deny: c.Want.Deny, Ask: c.Want.Ask, Sandbox: c.Want.Sandbox != nil}
		return (c.Ask.Tool == in.Ask.Tool || c.Ask.Tool == in.origin.Ask.Tool) && rank(c.Ask.Role) <= rank(in.Ask.Role) &&
			kindAt(c.Args, pointer) == kind && !looser(in.Kind, got, w)
	})
}

// rank orders the roles; an unknown role is the lowest.
func rank(role string) int { return max(slices.Index([]string{"guest", "member", "owner"}, role), 0) }
