package author

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/policy"
)

// Outcome is what a policy answered to one case.
type Outcome struct {
	Answer      string        `json:"answer,omitempty"` // abstain, agent, drop; unrestricted, restricted; error
	Agent       string        `json:"agent,omitempty"`
	Deny        bool          `json:"deny,omitempty"`
	Ask         bool          `json:"ask,omitempty"`
	Sandbox     bool          `json:"sandbox,omitempty"`
	SandboxName string        `json:"sandbox_name,omitempty"`
	Rule        uint32        `json:"rule,omitempty"`
	Reason      string        `json:"reason,omitempty"`
	Error       string        `json:"error,omitempty"` // class and text
	Fuel        int64         `json:"fuel"`
	Took        time.Duration `json:"took_ns"`
}

const answerError = "error"

// outcomeOf reads a decision's record. The words of its answer are those of package policy: for a tool deny and ask, then sandbox
// with its name, which may have any characters.
func outcomeOf(r policy.Record) Outcome {
	o := Outcome{Answer: r.Answer, Error: r.Error, Fuel: r.Fuel, Took: r.Took}
	if r.Error != "" {
		o.Answer = answerError
		return o
	}
	if o.Rule = r.Rule; r.Reason != fmt.Sprintf("rule %d", r.Rule) { // the engine's words for an answer without a reason
		o.Reason = r.Reason
	}
	switch agent, routed := strings.CutPrefix(r.Answer, "agent "); {
	case r.Kind == policy.KindRoute && routed:
		o.Answer, o.Agent = "agent", agent
	case r.Kind == policy.KindRoute:
	case r.Answer == "none":
		o.Answer = "unrestricted"
	default:
		o.Answer = "restricted"
		words := r.Answer + ", "
		words, o.Deny = strings.CutPrefix(words, "deny, ")
		words, o.Ask = strings.CutPrefix(words, "ask, ")
		words, o.Sandbox = strings.CutPrefix(words, "sandbox")
		o.SandboxName = strings.TrimSpace(strings.TrimSuffix(words, ", "))
	}
	return o
}

// Same reports whether two answers are the same, whatever they cost.
func (o Outcome) Same(other Outcome) bool {
	o.Fuel, o.Took, other.Fuel, other.Took = 0, 0, 0, 0
	return o == other
}

// String says it in one line: "agent coder, rule 3, because ...; fuel 812".
func (o Outcome) String() string {
	parts := []string{o.Answer}
	if o.Agent != "" {
		parts[0] += " " + o.Agent
	}
	for _, r := range []struct {
		is   bool
		text string
	}{
		{o.Deny, "deny"}, {o.Ask, "ask"}, {o.Sandbox, strings.TrimSpace("sandbox " + o.SandboxName)},
		{o.Rule != 0, fmt.Sprintf("rule %d", o.Rule)}, {o.Reason != "", "because " + strconv.Quote(o.Reason)}, {o.Error != "", o.Error},
	} {
		if r.is {
			parts = append(parts, r.text)
		}
	}
	return fmt.Sprintf("%s; fuel %d, %v", strings.Join(parts, ", "), o.Fuel, o.Took)
}

// Diff is one field in which an answer is not the expected one.
type Diff struct {
	Field string `json:"field"`
	Want  string `json:"want"`
	Got   string `json:"got"`
}

func (d Diff) String() string { return fmt.Sprintf("%s: want %s, got %s", d.Field, d.Want, d.Got) }

// diff compares an outcome with what a case expects.
func (w Want) diff(o Outcome) []Diff {
	var diffs []Diff
	compare := func(field string, want, got any) {
		if want != got {
			diffs = append(diffs, Diff{field, fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", got)})
		}
	}
	if w.Error != "" || o.Error != "" {
		return w.diffError(o)
	}
	compare("answer", w.answer(), o.Answer)
	compare("agent", w.Agent, o.Agent)
	compare("deny", w.Deny, o.Deny)
	compare("ask", w.Ask, o.Ask)
	name, _ := w.Sandbox.(string)
	compare("sandbox", w.Sandbox != nil, o.Sandbox)
	if name != "" {
		compare("sandbox name", name, o.SandboxName)
	}
	if w.Rule != nil {
		compare("rule", int(*w.Rule), int(o.Rule))
	}
	if w.Reason != nil {
		compare("reason", *w.Reason, o.Reason)
	}
	return diffs
}

// diffError compares the classes of the failures.
func (w Want) diffError(o Outcome) []Diff {
	if o.Class() == w.Error {
		return nil
	}
	return []Diff{{"error", cmp.Or(w.Error, "none"), cmp.Or(o.Error, "none")}}
}

func (w Want) answer() string {
	switch {
	case w.Abstain:
		return "abstain"
	case w.Agent != "":
		return "agent"
	case w.Drop:
		return "drop"
	case w.Unrestricted:
		return "unrestricted"
	}
	return "restricted"
}

// Class is the class of the failure, the word in front of its text, or "".
func (o Outcome) Class() string {
	class, _, _ := strings.Cut(o.Error, ":")
	return class
}

// Want returns the outcome as a case expects it.
func (o Outcome) Want() Want {
	w := Want{Agent: o.Agent, Drop: o.Answer == "drop", Abstain: o.Answer == "abstain", Unrestricted: o.Answer == "unrestricted", Deny: o.Deny, Ask: o.Ask}
	if o.Sandbox {
		w.Sandbox = true
		if o.SandboxName != "" {
			w.Sandbox = o.SandboxName
		}
	}
	return w
}
