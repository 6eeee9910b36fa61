package transcript

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/tool"
)

// aStep draws a step that may be anything, but is often one that fits.
func aStep(t *rapid.T, next int) turnlog.Step {
	id := rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "call")
	n := rapid.IntRange(-1, 4).Draw(t, "n")
	start := ToolStart{Call: id, Tool: rapid.SampledFrom([]string{DelegateTool, "x"}).Draw(t, "tool")}
	record := rapid.SampledFrom([]any{
		UserStep{Said: []Said{{Text: "hi"}}}, UserStep{Delegated: &Delegated{}}, anAnswer(t), model.Response{}, start,
		ToolResult{ToolStart: start, Result: tool.Result{Record: Encode(Child{Tokens: n, ToolCalls: n, Used: Used{Tokens: int64(n)}})}},
		TaskStep{Usage: model.Usage{Input: n}}, CondensedStep{Entries: n, Lost: rapid.IntRange(-1, 4).Draw(t, "lost")},
	}).Draw(t, "record")
	s := turnlog.Step{Turn: "t1", Seq: next, Kind: kindOf(record), Data: Encode(record)}
	switch rapid.IntRange(0, 20).Draw(t, "malformed") {
	case 0:
		s.Seq = n
	case 1:
		s.Kind = turnlog.StepKind(rapid.String().Draw(t, "kind"))
	case 2:
		s.Data = json.RawMessage(rapid.SampledFrom([]string{"", "null", "[]", "{", `{"message":{"calls":[null]}}`, `{"said":7}`, `{"call":"a","result":{"verdict":"x"}}`}).Draw(t, "data"))
	}
	return s
}

// hostile applies steps of any kind. An impossible step is an error and changes nothing, and everything that reads the state copes with
// what is left.
func hostile(t *rapid.T) {
	var s State
	var kept []turnlog.Step
	for range rapid.IntRange(0, 12).Draw(t, "steps") {
		step := aStep(t, s.Steps())
		before := clone(s)
		if err := s.Apply(step); err == nil {
			kept = append(kept, step)
		} else if !reflect.DeepEqual(s, before) {
			t.Fatalf("%v, and the state is another one", err)
		}
	}
	again, err := Read(kept)
	if err != nil || !reflect.DeepEqual(again, s) {
		t.Fatalf("read back (%v):\n%+v\nwas:\n%+v", err, again, s)
	}
	now := Now{Limits: Limits{Steps: 9, ToolCalls: 9, Tokens: 99}, Fill: &Fill{Threshold: 1, Window: 1, Own: 2}}
	Next(&s, now)
	s.Used()
	if spent := s.Spent(); spent.ToolCalls < 0 || spent.Tokens < 0 {
		t.Fatalf("spent %+v", spent)
	}
	s.Labels()
	s.Attachments()
	s.Images()
	for _, state := range []turnlog.TurnState{turnlog.TurnRunning, turnlog.TurnDone, turnlog.TurnFailed, turnlog.TurnStopped} {
		if _, err := Describe(turnlog.Turn{ID: "t1", State: state}, kept, ""); err != nil {
			t.Fatal(err)
		}
		Check(turnlog.Turn{ID: "t1", State: state}, kept)
	}
}

func TestHostileHistories(t *testing.T) { rapid.Check(t, hostile) }

func FuzzHostileHistories(f *testing.F) { f.Fuzz(rapid.MakeFuzz(hostile)) }

func TestWhatCannotBe(t *testing.T) {
	user, answer := UserStep{}, anAnswerWith("a")
	start, result := ToolStart{Call: "a"}, ToolResult{ToolStart: ToolStart{Call: "a"}}
	for name, c := range map[string]struct {
		records []any
		want    string // of the error; "" for none
	}{
		"a call from begin to end":        {[]any{user, answer, start, result}, ""},
		"a refused call":                  {[]any{user, answer, result}, ""},
		"two calls with one id":           {[]any{user, anAnswerWith("a", "a"), start, start, result, result}, ""},
		"nothing said":                    {[]any{answer}, `kind "model" cannot be number 0`},
		"said twice":                      {[]any{user, user}, `kind "user" cannot be number 1`},
		"begun before an answer":          {[]any{user, start}, `no call "a" to begin`},
		"begun twice":                     {[]any{user, answer, start, start}, `no call "a" to begin`},
		"begun after its result":          {[]any{user, answer, result, start}, `no call "a" to begin`},
		"begun, and never asked for":      {[]any{user, answer, ToolStart{Call: "b"}}, `no call "b" to begin`},
		"two results":                     {[]any{user, answer, start, result, result}, `no call "a" without a result`},
		"a result of an earlier answer":   {[]any{user, answer, anAnswerWith(), result}, `no call "a" without a result`},
		"a summary of what there is":      {[]any{user, answer, answer, CondensedStep{Entries: 1}}, ""},
		"a summary of more than there is": {[]any{user, answer, CondensedStep{Entries: 2}}, "a summary of 2 steps follows 1 steps"},
		"a summary of nothing":            {[]any{user, answer, CondensedStep{}}, "a summary of 0 steps"},
		"a summary before another":        {[]any{user, answer, answer, CondensedStep{Entries: 2}, CondensedStep{Entries: 1}}, "a summary of 1 steps"},
	} {
		t.Run(name, func(t *testing.T) {
			var steps []turnlog.Step
			for i, r := range c.records {
				steps = append(steps, turnlog.Step{Turn: "t1", Seq: i, Kind: kindOf(r), Data: Encode(r)})
			}
			switch _, err := Read(steps); {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v", err)
			}
		})
	}
	for name, s := range map[string]turnlog.Step{
		"no JSON":      {Kind: turnlog.StepUser, Data: []byte("{")},
		"a gap":        {Kind: turnlog.StepUser, Seq: 1, Data: Encode(user)},
		"unknown kind": {Kind: "dream", Seq: 0},
	} {
		if _, err := Read([]turnlog.Step{s}); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

func anAnswerWith(ids ...string) model.Response {
	r := model.Response{Message: model.Message{Role: model.Assistant, Text: "x"}}
	for _, id := range ids {
		r.Message.Calls = append(r.Message.Calls, model.ToolCall{ID: id, Name: "thing.touch", Args: Encode(map[string]any{})})
	}
	return r
}
