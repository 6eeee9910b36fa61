package tui

import (
	"fmt"
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
