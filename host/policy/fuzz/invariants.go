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
	unstable  = "unstable"  // two pristine instances differ in answer or fuel
	remembers = "remembers" // an instance that has answered other questions gives another answer
	malformed = "malformed" // malformed arguments are restricted less
	unknown   = "unknown"   // an unknown value is treated better than the least one
)

// checkFailure reports every failure.
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

// alwaysSlow asks again without counting blocks, because a busy machine can be slow once.
func (s *session) alwaysSlow(ctx context.Context, in input) bool {
	for range 3 {
		if _, r := in.target.warm.Ask(ctx, in.Case); r.Took <= s.wall {
			return false
		}
	}
	return true
}

// checkAgain asks another pristine instance, which has to give the same answer for the same fuel.
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
	s.add(Find{Invariant: unstable, What: "asked twice, it gives another answer or takes other fuel", Answer: again, Than: &got}, in)
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
	// The instance's state is not part of the question, so it cannot be shrunk.
	s.add(Find{Invariant: remembers, What: "after other questions it gives another answer", Answer: warm, Than: &got}, in)
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

// variation is a question made from another one, whose answer must not restrict the caller less.
type variation struct {
	invariant string
	sort      string // one find of each sort is reported
	what      string
	make      func(author.Case) (author.Case, bool)
	// than are the questions to compare with; it is a find if it is better off than all of them.
	than []func(author.Case) (author.Case, bool)
	// better compares the answers; nil is looser.
	better func(ctx context.Context, s *session, in input, got, than author.Outcome) bool
	// expected reports whether the author's cases show that answer for such a question.
	expected func(author.Outcome) bool
}

// checkVariations tries one variation of a question, or all of them if the question does something new.
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
		if better, _, _ := s.compare(ctx, in, v); better && s.first(v.invariant, in.Kind, v.sort) {
			s.reportVariation(ctx, in, v)
		}
	}
}

// compare asks a variation and the questions to compare it with.
func (s *session) compare(ctx context.Context, in input, v variation) (better bool, answer, than author.Outcome) {
	varied, ok := v.make(in.Case)
	if !ok {
		return false, answer, than
	}
	asked := in
	asked.Case = varied
	answer, _ = s.ask(ctx, asked)
	s.novel(in.target) // marks its blocks as seen
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
		better, _, _ := s.compare(ctx, in, v)
		return better
	})
	_, answer, than := s.compare(ctx, in, v)
	in.Case, _ = v.make(in.Case)
	s.add(Find{Invariant: v.invariant, What: v.what, Answer: answer, Than: &than}, in)
}

// variations returns the variations of a question. r is the record of its answer.
func (s *session) variations(in input, r policy.Record) []variation {
	list := unknownValues()
	if in.Kind == policy.KindTool {
		list = append(list, s.malformations(in, r)...)
	}
	return list
}

// unknownValues returns variations with values that do not exist, some of which resemble existing ones.
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

// betterThanGuest also finds a route that owners or members get and guests do not.
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

// malformations returns variations with malformed arguments: another type at a pointer that the policy asked for, no value, or a duplicate
// key. Types that the author's own cases use are not malformed.
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

// rank orders the roles. What a case shows for one role holds for those above it; an unknown role is the lowest.
func rank(role string) int { return max(slices.Index([]string{"guest", "member", "owner"}, role), 0) }

// outcomeOf returns the answer that a case wants.
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
