package transcript

import (
	"errors"
	"reflect"
	"testing"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/tool"
)

// TestNext has one case of each decision.
func TestNext(t *testing.T) {
	stopped := errors.New("stopped")
	limits := Limits{Steps: 3, ToolCalls: 2, Tokens: 100}
	call := func(id string) model.ToolCall { return anAnswerWith(id).Message.Calls[0] }
	start := func(id string) ToolStart { return ToolStart{Call: id, Tool: "thing.touch"} }
	result := func(id string) ToolResult {
		return ToolResult{ToolStart: start(id), Result: tool.Result{Text: "touched"}}
	}
	costly := anAnswerWith("a")
	costly.Usage.Input = 100
	for name, c := range map[string]struct {
		records []any // after what was said
		now     Now
		want    Action
	}{
		"nothing was done":             {nil, Now{}, Ask{}},
		"stopped before anything":      {nil, Now{End: stopped}, Fail{stopped}},
		"answered":                     {[]any{anAnswerWith()}, Now{End: stopped}, Finish{"x"}},
		"calls":                        {[]any{anAnswerWith("a", "b")}, Now{}, Run{[]model.ToolCall{call("a"), call("b")}}},
		"more calls than there may be": {[]any{anAnswerWith("a", "b", "c")}, Now{}, Run{[]model.ToolCall{call("a"), call("b")}}},
		"one id twice":                 {[]any{anAnswerWith("a", "a")}, Now{}, Run{[]model.ToolCall{call("a")}}},
		"one id twice, and a result":   {[]any{anAnswerWith("a", "a"), start("a"), result("a")}, Now{}, Ask{}},
		"the calls are used up":        {[]any{anAnswerWith("a", "b", "c"), result("a"), result("b")}, Now{}, Fail{&Exceeded{2, "tool calls"}}},
		"used up by somebody else":     {[]any{anAnswerWith("a")}, Now{Elsewhere: Spent{ToolCalls: 2}}, Fail{&Exceeded{2, "tool calls"}}},
		"the tokens are used up":       {[]any{costly}, Now{}, Fail{&Exceeded{100, "tokens"}}},
		"used up by a child":           {[]any{anAnswerWith("a"), result("a")}, Now{Elsewhere: Spent{Tokens: 100}}, Fail{&Exceeded{100, "tokens"}}},
		"the steps are used up": {[]any{anAnswerWith("a"), result("a"), anAnswerWith("a"), result("a"), anAnswerWith("a")}, Now{},
			Fail{&Exceeded{3, "steps"}}},
		"stopped before a call":              {[]any{anAnswerWith("a")}, Now{End: stopped}, Fail{stopped}},
		"begun by an earlier process":        {[]any{anAnswerWith("a", "b"), start("a")}, Now{}, Interrupt{start("a")}},
		"begun earlier, and stopped":         {[]any{anAnswerWith("a"), start("a")}, Now{End: stopped}, Interrupt{start("a")}},
		"begun by this process":              {[]any{anAnswerWith("a"), start("a")}, Now{Running: []string{"a"}}, Wait{}},
		"one runs, one may run beside it":    {[]any{anAnswerWith("a", "b"), start("a")}, Now{Running: []string{"a"}}, Run{[]model.ToolCall{call("b")}}},
		"one runs, one was begun earlier":    {[]any{anAnswerWith("a", "b"), start("a"), start("b")}, Now{Running: []string{"a"}}, Interrupt{start("b")}},
		"all have results":                   {[]any{anAnswerWith("a", "b"), result("a"), start("b"), result("b")}, Now{}, Ask{}},
		"it repeats what is known":           {[]any{anAnswerWith("a"), result("a")}, Now{End: stopped, Repeats: true}, Ask{}},
		"it has a call, whatever it repeats": {[]any{anAnswerWith("a")}, Now{End: stopped, Repeats: true}, Fail{stopped}},
		"full": {[]any{anAnswerWith("a"), result("a"), anAnswerWith("a"), result("a")},
			Now{Fill: &Fill{Window: 1000, Threshold: 100, Own: 101, Keep: 1}}, Condense{Upto: 1}},
		"full with the turns before": {[]any{anAnswerWith("a"), result("a"), anAnswerWith("a"), result("a")},
			Now{Fill: &Fill{Window: 1000, Threshold: 100, Own: 50, Before: 51, Keep: 1}}, Condense{Upto: 1}},
		"full, and no summary is to be had": {[]any{anAnswerWith("a"), result("a"), anAnswerWith("a"), result("a")},
			Now{Fill: &Fill{Window: 1000, Threshold: 100, Own: 101, Keep: 1, Unsummarised: true}}, Ask{}},
		"overfull, and no summary is to be had": {[]any{anAnswerWith("a"), result("a"), anAnswerWith("a"), result("a")},
			Now{Fill: &Fill{Window: 100, Threshold: 100, Own: 101, Keep: 1, Unsummarised: true}}, Condense{Upto: 1, Must: true}},
		"refused by the model": {[]any{anAnswerWith("a"), result("a"), anAnswerWith("a"), result("a")},
			Now{Fill: &Fill{Window: 1000, Threshold: 500, Own: 101, Keep: 1, Refused: true}}, Condense{Upto: 1, Must: true}},
		"full, and nothing is ever condensed": {[]any{anAnswerWith("a"), result("a"), anAnswerWith("a"), result("a")},
			Now{Fill: &Fill{Window: 100, Own: 101}}, Ask{}},
		"full of one answer": {[]any{anAnswerWith("a"), result("a")}, Now{Fill: &Fill{Window: 100, Threshold: 100, Own: 101, Keep: 1}}, Ask{}},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			for _, r := range append([]any{UserStep{}}, c.records...) {
				s.Add("t1", noon, r)
			}
			c.now.Limits = limits
			if got := Next(&s, c.now); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%#v, want %#v", got, c.want)
			}
		})
	}
}
