package tui

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

// A client that is too slow for the events of an answer gets the history and what has streamed so far instead, and shows nothing twice.
func TestAHistoryInAnAnswer(t *testing.T) {
	const lines, committed = 300, "the first answer"
	var whole strings.Builder
	for i := range lines {
		fmt.Fprintf(&whole, "- line %03d\n", i)
	}
	text := whole.String()
	half := text[:len(text)/2]
	earlier := []gateway.Entry{
		{From: gateway.FromUser, Key: "k0", Turn: "t0", Text: "before"},
		{From: gateway.FromAgent, Key: "r0", Turn: "t0", Text: committed},
	}
	started := message.Event{Kind: message.TurnStarted, Turn: "t1", Answers: []string{"k1"}, Text: "go"}
	for _, past := range [][]gateway.Entry{nil, earlier} {
		talk := newTranscript(paper{width: 80})
		talk.history(past, nil)
		talk.event(started)
		for piece := range strings.SplitAfterSeq(half, " ") {
			talk.event(message.Event{Kind: message.TextDelta, Turn: "t1", Text: piece})
		}
		waiting := gateway.Entry{From: gateway.FromUser, Key: "k1", Text: "go"}
		talk.history(append(past, waiting), []message.Event{started, {Kind: message.TextDelta, Turn: "t1", Text: half}})
		talk.event(message.Event{Kind: message.TextDelta, Turn: "t1", Text: text[len(half):]})
		talk.event(message.Event{Kind: message.ReplyReady, Turn: "t1", Key: "r1", Text: text})
		talk.event(message.Event{Kind: message.TurnDone, Turn: "t1"})
		shown := strings.Join(talk.out, "\n")
		for i := range lines {
			if n := strings.Count(shown, fmt.Sprintf("line %03d", i)); n != 1 {
				t.Fatalf("line %d is shown %d times:\n%s", i, n, shown)
			}
		}
		if n := strings.Count(shown, committed); n != len(past)/2 {
			t.Errorf("the answer before is shown %d times", n)
		}
	}
}

// A connection that is lost at any moment of a turn, and comes back at the same one or later, shows no line twice and leaves none out.
func TestAConnectionLostInATurn(t *testing.T) {
	const lines = 150
	text := func(name string) (whole string, pieces []message.Event) {
		for i := range lines {
			line := fmt.Sprintf("- %s %03d.\n", name, i)
			whole += line
			pieces = append(pieces, message.Event{Kind: message.TextDelta, Turn: "t1", Text: line})
		}
		return whole, pieces
	}
	events := []message.Event{{Kind: message.TurnStarted, Turn: "t1", Answers: []string{"k1"}, Text: "go"}}
	_, first := text("first")
	last, second := text("second")
	events = append(events, first...)
	events = append(events,
		message.Event{Kind: message.ToolCall, Turn: "t1", Call: "c1", Tool: "shell.exec"},
		message.Event{Kind: message.ToolDecision, Turn: "t1", Call: "c1", Tool: "shell.exec", Decision: "run"},
		message.Event{Kind: message.ToolResult, Turn: "t1", Call: "c1", Tool: "shell.exec", Text: "the output"})
	events = append(events, second...)
	events = append(events, message.Event{Kind: message.ReplyReady, Turn: "t1", Key: "r1", Text: last})
	waiting := []gateway.Entry{{From: gateway.FromUser, Key: "k1", Text: "go"}}
	for lost := 1; lost <= len(events); lost++ {
		for _, missed := range []int{0, 1, 70, len(events)} {
			back := min(lost+missed, len(events))
			talk := newTranscript(paper{width: 80})
			talk.history(nil, nil)
			for _, e := range events[:lost] {
				talk.event(e)
			}
			talk.history(waiting, events[:back])
			for _, e := range append(slices.Clone(events[back:]), message.Event{Kind: message.TurnDone, Turn: "t1"}) {
				talk.event(e)
			}
			shown := strings.Join(talk.out, "\n")
			want := []string{"the output"}
			for i := range lines {
				want = append(want, fmt.Sprintf("first %03d.", i), fmt.Sprintf("second %03d.", i))
			}
			for _, w := range want {
				if n := strings.Count(shown, w); n != 1 {
					t.Fatalf("lost after %d of %d events, back after %d: %q is shown %d times:\n%s", lost, len(events), back, w, n, shown)
				}
			}
		}
	}
}
