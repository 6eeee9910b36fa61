package fuzz

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
)

// The invariants.
const (
	fails     = "fails"     // the policy fails
	unstable  = "unstable"  // two pristine instances give other answers or take other fuel
	remembers = "remembers" // an instance that has answered others gives another answer
	malformed = "malformed" // malformed arguments are restricted less
	unknown   = "unknown"   // an unknown value is treated better than the least one
)

// checkFailure takes every failure for a find.
func (s *session) checkFailure(ctx context.Context, in input, got author.Outcome, r policy.Record) {
	class := got.Class()
	if class == "" && r.Took > s.wall && s.alwaysSlow(ctx, in) {
		class = string(policy.ClassDeadline)
	}
	if class == "" || !s.first(fails, in.Kind, class) {
		return
	}
	in = s.shrink(ctx, in, func(in input) bool {
		got, r := s.ask(ctx, in)
		return got.Class() == class || class == string(policy.ClassDeadline) && r.Took > s.wall && s.alwaysSlow(ctx, in)
	})
	got, _ = s.ask(ctx, in)
	what := got.Error
	if what == "" {
		what = fmt.Sprintf("deadline: more than %v", s.wall)
	}
	s.add(Find{Invariant: fails, What: what, Answer: got}, in)
}

// alwaysSlow asks again, without counting blocks: a machine that does something else makes anything slow, once.
func (s *session) alwaysSlow(ctx context.Context, in input) bool {
	for range 3 {
		if _, r := in.target.warm.Ask(ctx, in.Case); r.Took <= s.wall {
			return false
		}
	}
	return true
}

// checkAgain asks another pristine instance, which has to take the very same steps.
func (s *session) checkAgain(ctx context.Context, in input, got author.Outcome, r policy.Record) {
	differs := func(in input, got author.Outcome, r policy.Record) (author.Outcome, bool) {
		again, second := s.ask(ctx, in)
		return again, second.Fuel != r.Fuel || !got.Same(again)
	}
	again, differ := differs(in, got, r)
	if !differ || got.Class() == string(policy.ClassDeadline) || !s.first(unstable, in.Kind) {
		return
	}
	in = s.shrink(ctx, in, func(in input) bool {
		got, r := s.ask(ctx, in)
		_, differ := differs(in, got, r)
		return differ
	})
	s.add(Find{Invariant: unstable, What: "asked twice, it answers otherwise or takes other fuel", Answer: again, Than: &got}, in)
}

// checkWarm asks an instance that has answered other questions.
func (s *session) checkWarm(ctx context.Context, in input, got author.Outcome, r policy.Record) {
	warm, second := in.target.warm.Ask(ctx, in.Case)
	if second.Fuel != r.Fuel {
		s.report.WarmFuel++
	}
	if got.Same(warm) || got.Error != "" || warm.Error != "" || !s.first(remembers, in.Kind) {
		return
	}
	// Its memory is not part of this question, so there is nothing to shrink.
	s.add(Find{Invariant: remembers, What: "after other questions it answers otherwise", Answer: warm, Than: &got}, in)
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

// variation is a question made of another one, whose answer may not be better for who asks.
type variation struct {
	invariant string
	sort      string // of which one find is enough
	what      string
	make      func(author.Case) (author.Case, bool)
	// than are the questions that it is held against; it is a find if it is better off than every one of them.
	than []func(author.Case) (author.Case, bool)
	// better compares the answers; nil is looser.
	better func(ctx context.Context, s *session, in input, got, than author.Outcome) bool
	// expected tells of an answer that the author's cases give to such a question.
	expected func(author.Outcome) bool
}

// checkVariations tries one variation of a question, or all of them where the question does something new.
func (s *session) checkVariations(ctx context.Context, in input, got author.Outcome, r policy.Record, all bool) {
	if got.Error != "" || !all && s.random.IntN(4) > 0 {
		return
	}
	list := s.variations(in, r)
	if !all {
		k := s.random.IntN(len(list))
		list = list[k : k+1]
	}
	for _, v := range list {
		if better, _, _ := s.judge(ctx, in, v); better && s.first(v.invariant, in.Kind, v.sort) {
			s.reportVariation(ctx, in, v)
		}
	}
}

// judge asks a variation and what it is held against.
func (s *session) judge(ctx context.Context, in input, v variation) (better bool, answer, than author.Outcome) {
	varied, ok := v.make(in.Case)
	if !ok {
		return false, answer, than
	}
	asked := in
	asked.Case = varied
	answer, _ = s.ask(ctx, asked)
	s.novel(in.target) // it counts as seen
	if answer.Error != "" || v.expected != nil && v.expected(answer) {
		return false, answer, than
	}
	for _, base := range v.than {
		held := in
		if held.Case, ok = base(in.Case); !ok {
			return false, answer, than
		}
		than, _ = s.ask(ctx, held)
		better := looser(in.Kind, answer, than)
		if v.better != nil {
			better = v.better(ctx, s, in, answer, than)
		}
		if !better {
			return false, answer, than
		}
	}
	return true, answer, than
}

func (s *session) reportVariation(ctx context.Context, in input, v variation) {
	in = s.shrink(ctx, in, func(in input) bool {
		better, _, _ := s.judge(ctx, in, v)
		return better
	})
	_, answer, than := s.judge(ctx, in, v)
	in.Case, _ = v.make(in.Case)
	s.add(Find{Invariant: v.invariant, What: v.what, Answer: answer, Than: &than}, in)
}

// variations are those that fit the question. r is the record of its answer.
func (s *session) variations(in input, r policy.Record) []variation {
	list := unknownValues()
	if in.Kind == policy.KindTool {
		list = append(list, s.malformations(in, r)...)
	}
	return list
}

// unknownValues are values that no version of Flynn has, and some that only look like one that it has.
func unknownValues() []variation {
	set := func(field func(*author.Facts) *string, value string) func(author.Case) (author.Case, bool) {
		return func(c author.Case) (author.Case, bool) {
			c.Ask = c.Ask.Clone()
			*field(&c.Ask) = value
			return c, true
		}
	}
	all := func(field func(*author.Facts) *string, values []string) (list []func(author.Case) (author.Case, bool)) {
		for _, v := range values {
			list = append(list, set(field, v))
		}
		return list
	}
	role := func(f *author.Facts) *string { return &f.Role }
	door := func(f *author.Facts) *string { return &f.Door }
	kind := func(f *author.Facts) *string { return &f.ConversationKind }
	var list []variation
	for _, value := range []string{"", "Owner", "OWNER", "owner ", " owner", "owner\x00", "owners", "own", "оwner", "admin", "members", "Member"} {
		list = append(list, variation{
			invariant: unknown, sort: "role", what: fmt.Sprintf("the role %q is treated better than guest", value),
			make: set(role, value), than: all(role, []string{"guest"}), better: betterThanGuest,
		})
	}
	for _, value := range []string{"", "Terminal", "terminal ", "console"} {
		list = append(list, variation{
			invariant: unknown, sort: "door", what: fmt.Sprintf("the door %q is treated better than every door that there is", value),
			make: set(door, value), than: all(door, known("Door")),
		})
	}
	for _, value := range []string{"", "DM", "dm ", "broadcast"} {
		list = append(list, variation{
			invariant: unknown, sort: "kind", what: fmt.Sprintf("the conversation's kind %q is treated better than every kind that there is", value),
			make: set(kind, value), than: all(kind, known("ConversationKind")),
		})
	}
	return list
}

// betterThanGuest also finds a route that a guest does not get, and an owner or a member does.
func betterThanGuest(ctx context.Context, s *session, in input, got, guest author.Outcome) bool {
	if looser(in.Kind, got, guest) {
		return true
	}
	if in.Kind != policy.KindRoute || got.Same(guest) || got.Answer != "agent" {
		return false
	}
	for _, role := range []string{"owner", "member"} {
		privileged := in
		privileged.Ask = in.Ask.Clone()
		privileged.Ask.Role = role
		if o, _ := s.ask(ctx, privileged); o.Agent == got.Agent && o.Agent != guest.Agent {
			return true
		}
	}
	return false
}

// malformations are arguments that are not what the policy looks for: another type at a pointer that it asked for, nothing there, or a key
// that stands twice. What the author's own cases show with such a type is no malformation.
func (s *session) malformations(in input, r policy.Record) []variation {
	var pointers []string
	for _, call := range r.Calls {
		if p := string(call.Args); (call.Name == "arg" || call.Name == "arg_kind") && len(p) <= 256 && !slices.Contains(pointers, p) {
			pointers = append(pointers, p)
		}
	}
	var list []variation
	for _, p := range pointers[:min(len(pointers), 8)] {
		for _, other := range []any{nil, true, json.Number("7"), "", []any{}, map[string]any{}} {
			if kindOf(other) != kindAt(in.Args, p) {
				list = append(list, s.malformation(in, p, kindOf(other), func(args json.RawMessage) (json.RawMessage, bool) { return replaceAt(args, p, other) }))
			}
		}
		list = append(list,
			s.malformation(in, p, "array", func(args json.RawMessage) (json.RawMessage, bool) {
				return editAt(args, p, func(v any) any { return []any{v} })
			}),
			s.malformation(in, p, "absent", func(args json.RawMessage) (json.RawMessage, bool) { return replaceAt(args, p, removed{}) }))
		if path := steps(p); len(path) > 0 {
			for _, second := range []string{"null", "[]", "{}"} {
				list = append(list, s.malformation(in, p, "twice, the second time "+second,
					func(args json.RawMessage) (json.RawMessage, bool) { return duplicate(args, path[0], second) }))
			}
		}
	}
	return list
}

func (s *session) malformation(in input, pointer, kind string, change func(json.RawMessage) (json.RawMessage, bool)) variation {
	return variation{
		invariant: malformed, sort: pointer + " " + kind, what: fmt.Sprintf("%s is %s, and the call is restricted less", pointer, kind),
		make: func(c author.Case) (author.Case, bool) {
			args, ok := change(c.Args)
			c.Args = args
			return c, ok
		},
		than: []func(author.Case) (author.Case, bool){func(c author.Case) (author.Case, bool) { return c, true }},
		expected: func(got author.Outcome) bool {
			return slices.ContainsFunc(s.cases, func(c input) bool {
				return (c.Ask.Tool == in.Ask.Tool || c.Ask.Tool == in.origin.Ask.Tool) && rank(c.Ask.Role) <= rank(in.Ask.Role) && kindAt(c.Args, pointer) == kind && !looser(in.Kind, got, outcomeOf(c.Want))
			})
		},
	}
}

// rank orders the roles. What a case shows of one holds for those above it; an unknown role is the least.
func rank(role string) int { return max(slices.Index([]string{"guest", "member", "owner"}, role), 0) }

// outcomeOf is what a case wants, as an answer.
func outcomeOf(w author.Want) author.Outcome {
	return author.Outcome{Error: w.Error, Deny: w.Deny, Ask: w.Ask, Sandbox: w.Sandbox != nil}
}

// first reports whether a find of this sort is the first.
func (s *session) first(sort ...string) bool {
	key := fmt.Sprint(sort)
	if s.known[key] {
		return false
	}
	s.known[key] = true
	return true
}

// add keeps a find.
func (s *session) add(f Find, in input) {
	f.Case, f.Changes, f.input = in.origin.Name, changes(*in.origin, in.Case), in
	f.Answer.Took = 0
	if f.Than != nil {
		f.Than.Took = 0
	}
	s.report.Finds = append(s.report.Finds, f)
}
