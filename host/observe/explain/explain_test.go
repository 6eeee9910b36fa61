package explain

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files")

// TestTraces tells turns that were really made.
func TestTraces(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(h *house)
		say   string
		grant bool
	}{
		{"answered", nil, "hello", false},
		{"denied by policy", func(h *house) {
			h.chain.restrictions = policy.Restrictions{Deny: true, Reasons: []string{"guard: not today", "guard: never on Sundays"}}
		}, `thing.touch {"what":"wood"}`, false},
		{"approved", func(h *house) {
			h.chain.restrictions = policy.Restrictions{Ask: true, Reasons: []string{"guard: ask first"}}
		}, `thing.touch {"what":"wood"}`, true},
		{"refused by a person", func(h *house) {
			h.chain.restrictions = policy.Restrictions{Ask: true, Reasons: []string{"guard: ask first"}}
		}, `thing.touch {"what":"wood"}`, false},
		{"not admitted", func(h *house) {
			h.gen.Admits = func(message.Message) string { return "irc:ann is not on the list" }
		}, "hello", false},
		{"dropped by a route policy", func(h *house) {
			h.chain.route = policy.RouteAnswer{Decided: true, Policy: "doorman", Reason: "closed"}
		}, "hello", false},
		{"fallback", func(h *house) { h.gen.Agents["helper"].Tier = "shaky" }, "hello", false},
		{"no model", func(h *house) {
			h.gen.Agents["helper"].Tier = "shaky"
			h.gen.Models = onlyBroken{}
		}, "hello", false},
		{"sandboxed", func(h *house) {
			h.gen.Agents["helper"].Sandboxed, h.gen.Agents["helper"].Sandbox = true, "tight"
			h.gen.Sandboxes = []string{"tight"}
		}, `thing.touch {"what":"wood"}`, false},
		{"delegated", nil, `agent.delegate {"agent":"other","task":"thing.touch {\"what\":\"wood\"}"}`, false},
		{"nonsense for arguments", nil, `thing.touch {"what":7}`, false},
		{"awkward text", nil, "two\nlines \x1b[2J\u202eflipped", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			if c.set != nil {
				c.set(h)
			}
			h.say(c.say, c.grant)
			h.deliver()
			trace := h.trace(mailbox.MessageID(1))
			text := trace.Text()
			for _, s := range trace.Steps {
				for _, call := range s.Calls {
					if call.Child != "" {
						text += h.trace(call.Child).Text()
					}
				}
			}
			golden(t, c.name, text)
			if _, err := json.Marshal(trace); err != nil {
				t.Error(err)
			}
		})
	}
}

// golden compares a text with what is kept of it, apart from what differs from run to run.
func golden(t *testing.T, name, text string) {
	t.Helper()
	ids := map[string]string{}
	text = regexp.MustCompile(`\b[0-9a-v]{26}\b`).ReplaceAllStringFunc(text, func(id string) string {
		if ids[id] == "" {
			ids[id] = fmt.Sprint("TURN", len(ids)+1)
		}
		return ids[id]
	})
	text = regexp.MustCompile(`(approval|request) [A-Z2-7]{10}\b`).ReplaceAllString(text, "$1 ID")
	text = regexp.MustCompile(`(?m)^ *\+\S+`).ReplaceAllString(text, "     +TIME")
	text = regexp.MustCompile(`(in|after) [0-9][0-9.]*(ns|µs|ms|s)\b`).ReplaceAllString(text, "$1 TIME")
	path := filepath.Join("testdata", strings.ReplaceAll(name, " ", "_")+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("the trace reads\n%s\nwant\n%s", text, want)
	}
}

// TestLinesOfACallAreInOrder: what the host decided before a person was asked stands before the person's answer.
func TestLinesOfACallAreInOrder(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	after := func(d time.Duration) time.Time { return at.Add(d) }
	trace := Trace{ID: "t", Started: at, Steps: []Step{{At: at, Calls: []ToolCall{{
		ID: "c", Tool: "shell.exec", Outcome: "run", Reasons: []string{"policy: ask", "approved by web:owner (request r)"},
		Approvals: []Approval{{ID: "r", Tool: "shell.exec", State: "consumed", Created: after(20 * time.Millisecond), Decided: after(225 * time.Second)}},
		Host:      &Decision{Kind: "enforce", Answer: "run", At: after(21 * time.Millisecond)},
		Ended:     after(226 * time.Second),
	}}}}}
	_, lines := trace.Lines()
	var got []string
	for _, l := range lines[1:] {
		got = append(got, strings.TrimSpace(l.At+" "+strings.SplitN(l.Text, ":", 2)[0]))
	}
	want := []string{"+21ms call c", "restricted", "approved by web", "+20ms approval r asked for shell.exec", "+21ms decided by the host", "+3m45s approval r", "outcome", "+3m46s result"}
	if !slices.Equal(got, want) {
		t.Errorf("lines are %q, want %q", got, want)
	}
}

func TestBounds(t *testing.T) {
	long := strings.Repeat("ä", maxText)
	if got := short(long); len(got) > maxText+10 || !strings.HasSuffix(got, "ä [...]") {
		t.Errorf("short keeps %d bytes: %q", len(got), got[len(got)-20:])
	}
	if got := shortArgs(json.RawMessage(`{"a":"` + long + `"}`)); !json.Valid(got) || len(got) > maxText+40 {
		t.Errorf("arguments of %d bytes: %s", len(got), got)
	}
}

// FuzzTrace makes traces of whatever steps hold: a line stays one line, and everything is bounded.
func FuzzTrace(f *testing.F) {
	f.Add("hello\n", `{"message":{"calls":[{"id":"c1","name":"a.b","args":{}}]}}`, `{"call":"c1","tool":"a.b","args":{"x":"\u202e"},"verdict":"deny","reasons":["\u001b[2J"]}`)
	f.Add("\x1b[2J", `{}`, `{}`)
	f.Fuzz(func(t *testing.T, said, answer, result string) {
		trace, err := New(turnlog.Trail{
			Turn:      turnlog.Turn{ID: "t1", Agent: "a", State: turnlog.TurnDone, Started: noon, Ended: noon},
			Inbox:     []mailbox.InboxRow{{ID: 1, Message: message.Message{Text: said}, Note: said}},
			Steps:     []turnlog.Step{{Seq: 1, Kind: turnlog.StepModel, Data: []byte(answer)}, {Seq: 2, Kind: turnlog.StepToolResult, Data: []byte(result)}},
			Decisions: []journal.Decision{{Kind: "tool", Policy: "p", Reason: said}, {Kind: "enforce", Reason: "a.b: " + said}},
		})
		if err != nil {
			return
		}
		title, lines := trace.Lines()
		for _, l := range lines {
			title = append(title, l.Text)
		}
		for _, text := range title {
			if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) || len(text) > 20*maxText {
				t.Errorf("a line is %q", text)
			}
		}
		if _, err := json.Marshal(trace); err != nil {
			t.Error(err)
		}
	})
}

func TestDamagedStepsAreAnError(t *testing.T) {
	for _, s := range []turnlog.Step{
		{Kind: turnlog.StepModel, Data: []byte("{")},
		{Kind: turnlog.StepToolResult, Data: []byte(`{"call":"c1"}`)},
		{Kind: "odd", Data: []byte("{}")},
	} {
		if _, err := New(turnlog.Trail{Turn: turnlog.Turn{ID: "t", Started: time.Now()}, Steps: []turnlog.Step{s}}); err == nil {
			t.Errorf("%s %s makes a trace", s.Kind, s.Data)
		}
	}
}

// TestTheClockWasSetBackInBetween has no answer to how long something took.
func TestTheClockWasSetBackInBetween(t *testing.T) {
	if got := span(-5 * time.Hour); strings.Contains(got, "-") || !strings.Contains(got, "set back") {
		t.Errorf("took %s", got)
	}
}

// TestACallReadsAsItWasWritten shows what a call holds without the escapes of HTML, as text and as JSON.
func TestACallReadsAsItWasWritten(t *testing.T) {
	for _, v := range []string{"a && b > c < d", "<script>&amp;</script>", "cat <<<x |& tee >(y)"} {
		h := newHouse(t)
		args, err := json.Marshal(map[string]string{"what": v}) // with escapes
		if err != nil {
			t.Fatal(err)
		}
		h.say("thing.touch "+string(args), true)
		trace := h.trace(mailbox.MessageID(1))
		text, err := jsonform.Marshal(trace)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"what":"` + v + `"}`
		if !strings.Contains(trace.Text(), "thing.touch "+want) || !strings.Contains(string(text), `"args":`+want) {
			t.Errorf("%s is not in\n%s\n%s", want, trace.Text(), text)
		}
	}
}
