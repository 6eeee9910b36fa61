package author

import (
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

// routeOutcome reads a route policy's answer out of the decision's record.
func routeOutcome(a policy.RouteAnswer, r policy.Record) Outcome {
	o := recorded(r)
	switch {
	case r.Error != "":
		o.Answer = answerError
	case !a.Decided:
		o.Answer = "abstain"
	case a.Agent == "":
		o.Answer = "drop"
	default:
		o.Answer, o.Agent = "agent", a.Agent
	}
	return o
}

// toolOutcome reads a tool policy's answer out of the decision's record.
func toolOutcome(res policy.Restrictions, r policy.Record) Outcome {
	o := recorded(r)
	if r.Error != "" {
		o.Answer = answerError
		return o
	}
	o.Answer = "unrestricted"
	if res.Deny || res.Ask || res.Sandbox {
		o.Answer = "restricted"
	}
	o.Deny, o.Ask, o.Sandbox = res.Deny, res.Ask, res.Sandbox
	if len(res.Sandboxes) > 0 {
		o.SandboxName = res.Sandboxes[0]
	}
	return o
}

func recorded(r policy.Record) Outcome {
	if r.Error != "" {
		return Outcome{Error: r.Error, Fuel: r.Fuel, Took: r.Took}
	}
	o := Outcome{Rule: r.Rule, Reason: r.Reason, Fuel: r.Fuel, Took: r.Took}
	if o.Reason == fmt.Sprintf("rule %d", r.Rule) {
		o.Reason = "" // the engine's words for an answer without a reason
	}
	return o
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

// diffError compares by the class of the failure, the word in front of its text.
func (w Want) diffError(o Outcome) []Diff {
	if class := errorClass(o.Error); class != w.Error {
		want, got := w.Error, o.Error
		if want == "" {
			want = "none"
		}
		if got == "" {
			got = "none"
		}
		return []Diff{{"error", want, got}}
	}
	return nil
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

// errorClass is the word in front of a failure's text.
func errorClass(text string) string {
	class, _, _ := strings.Cut(text, ":")
	return class
}
