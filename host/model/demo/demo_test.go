package demo

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/model"
)

func ask(ctx context.Context, text string) (model.Response, []string, error) {
	var pieces []string
	req := model.Request{Messages: []model.Message{{Role: model.User, Text: text}}}
	resp, err := Provider{}.Stream(ctx, req, func(d model.Delta) { pieces = append(pieces, d.Text) })
	return resp, pieces, err
}

func TestAnswers(t *testing.T) {
	call := func(id, name, args string) model.ToolCall {
		return model.ToolCall{ID: id, Name: name, Args: json.RawMessage(args)}
	}
	for name, test := range map[string]struct {
		text  string
		want  string
		calls []model.ToolCall
	}{
		"text":                   {"hello there", "You said: hello there", nil},
		"nothing":                {"", "You said: ", nil},
		"shell":                  {`!sh ls "a b"`, "", []model.ToolCall{call("demo_1", "shell.exec", `{"command":"ls \"a b\""}`)}},
		"tool":                   {`!tool memory.save {"key": 1}`, "", []model.ToolCall{call("demo_1", "memory.save", `{"key": 1}`)}},
		"tool without arguments": {"!tool clock.now", "", []model.ToolCall{call("demo_1", "clock.now", `{}`)}},
		"tool with bad JSON":     {"!tool clock.now {oops", "", []model.ToolCall{call("demo_1", "clock.now", `{oops`)}},
		"parallel":               {"!sh a\n!sh b\n", "", []model.ToolCall{call("demo_1", "shell.exec", `{"command":"a"}`), call("demo_2", "shell.exec", `{"command":"b"}`)}},
		"mixed lines are text":   {"!sh a\nplease", "You said: !sh a\nplease", nil},
		"in a group":             {"<ann> !sh ls", "", []model.ToolCall{call("demo_1", "shell.exec", `{"command":"ls"}`)}},
		"a tag is no speaker":    {`<img src=x onerror="alert(1)"> hi`, `You said: <img src=x onerror="alert(1)"> hi`, nil},
		"several in a group":     {"<ann> hi\n<ann> there", "You said: hi\nthere", nil},
		"a program":              {"!py print(1)", "```python\nprint(1)\n```", nil},
		"a program of lines":     {"!js\nlet a\na = 1", "```javascript\nlet a\na = 1\n```", nil},
		"no program":             {"!py", "You said: !py", nil},
		"nor this":               {"!pyramid", "You said: !pyramid", nil},
		"bare commands are text": {"!sh", "You said: !sh", nil},
		"slow needs a number":    {"!slow down", "!slow needs a number of milliseconds, such as !slow 500 hello", nil},
	} {
		t.Run(name, func(t *testing.T) {
			resp, pieces, err := ask(t.Context(), test.text)
			if err != nil {
				t.Fatal(err)
			}
			want := model.Message{Role: model.Assistant, Text: test.want, Calls: test.calls}
			if diff := cmp.Diff(want, resp.Message); diff != "" {
				t.Error(diff)
			}
			if got := strings.Join(pieces, ""); got != test.want {
				t.Errorf("emitted %q", got)
			}
			if (resp.Stop == model.StopToolCalls) != (test.calls != nil) || resp.Usage.Output == 0 {
				t.Errorf("stop is %s, usage %+v", resp.Stop, resp.Usage)
			}
		})
	}
}

// Where the tool is offered a program is a call of it.
func TestProgramsAreCalls(t *testing.T) {
	resp, err := Provider{}.Stream(t.Context(), model.Request{
		Messages: []model.Message{{Role: model.User, Text: "!py x = 1\nprint(x)"}}, Tools: []model.Tool{{Name: "code.run"}},
	}, func(model.Delta) {})
	if err != nil || len(resp.Message.Calls) != 1 || resp.Stop != model.StopToolCalls {
		t.Fatalf("%+v (%v)", resp, err)
	}
	if c := resp.Message.Calls[0]; c.Name != "code.run" || string(c.Args) != `{"language":"python","program":"x = 1\nprint(x)"}` {
		t.Errorf("the call is %s %s", c.Name, c.Args)
	}
}

func TestResultsAreAnswered(t *testing.T) {
	for name, test := range map[string]struct {
		results []model.ToolResult
		want    string
	}{
		"one":   {[]model.ToolResult{{ID: "demo_1", Text: "a.txt\nb.txt"}}, "a.txt\nb.txt"},
		"two":   {[]model.ToolResult{{ID: "demo_1", Text: "one"}, {ID: "demo_2", Text: "two", IsError: true}}, "one\ntwo"},
		"empty": {[]model.ToolResult{{ID: "demo_1"}}, "(the tool had no output)"},
	} {
		t.Run(name, func(t *testing.T) {
			req := model.Request{Messages: []model.Message{{Role: model.User, Results: test.results}}}
			resp, err := Provider{}.Stream(t.Context(), req, func(model.Delta) {})
			if err != nil || resp.Message.Text != test.want {
				t.Errorf("answer is %q, %v; want %q", resp.Message.Text, err, test.want)
			}
		})
	}
}

func TestIDsAreUniqueInATranscript(t *testing.T) {
	req := model.Request{Messages: []model.Message{
		{Role: model.Assistant, Calls: []model.ToolCall{{ID: "demo_1"}, {ID: "demo_2"}}},
		{Role: model.User, Text: "!sh ls"},
	}}
	resp, err := Provider{}.Stream(t.Context(), req, func(model.Delta) {})
	if err != nil || resp.Message.Calls[0].ID != "demo_3" {
		t.Errorf("calls are %+v, %v", resp.Message.Calls, err)
	}
}

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		resp, _, err := ask(t.Context(), "!slow 2500 !sh ls")
		if err != nil || len(resp.Message.Calls) != 1 || time.Since(start) != 2500*time.Millisecond {
			t.Errorf("answer is %+v, %v after %s", resp, err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err = ask(ctx, "!slow 2500")
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != model.Timeout {
			t.Errorf("error is %v, want a timeout", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		if _, _, err = ask(ctx, "!slow 2500"); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v, want a cancellation", err)
		}
	})
}

func TestFail(t *testing.T) {
	for text, want := range map[string]model.Kind{"!fail": model.Overloaded, "!fail auth": model.Auth, "!slow 0 !fail": model.Overloaded} {
		_, _, err := ask(t.Context(), text)
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != want {
			t.Errorf("%s: error is %v, want %s", text, err, want)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{"hi", "!sh ls", "!tool a {", "!sh a\n!tool b", "!fail", "!slow", "!slow -1 x", "\xff !sh", "!slow 0 !slow 0 x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		one, _, err := ask(ctx, text)
		if err != nil {
			return
		}
		if strings.Contains(text, "!slow") {
			return
		}
		if again, _, _ := ask(ctx, text); !cmp.Equal(one, again) && ctx.Err() == nil {
			t.Errorf("%q is answered in two ways", text)
		}
	})
}

// TestUsageOfALongConversation: what is guessed of older messages is near what counting them says.
func TestUsageOfALongConversation(t *testing.T) {
	one := model.Message{Role: model.User, Text: "several words of a person, who is not in a hurry"}
	for n := range 3 * recentMessages {
		got := usage(model.Request{Messages: slices.Repeat([]model.Message{one}, n)}, model.Message{}).Input
		if counted := n * words(one.Text); got < counted*8/10 || got > counted*12/10 || n <= recentMessages && got != counted {
			t.Errorf("%d messages of %d words are %d", n, counted, got)
		}
	}
}
