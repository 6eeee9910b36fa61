package watch_test

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway/watch"
	"github.com/flynnhost/flynn/host/message"
)

func event(kind message.EventKind, text string) message.Event {
	return message.Event{Kind: kind, Channel: "web", Conversation: "a", Turn: "t", Text: text}
}

func call(kind message.EventKind, id, text string) message.Event {
	e := event(kind, text)
	e.Call = id
	return e
}

func TestHub(t *testing.T) {
	h := watch.NewHub(0)
	_, seen, stop := h.Watch("web", "a")
	_, other, stopOther := h.Watch("web", "b")
	defer stopOther()
	h.Publish(event(message.Said, "x"))
	if got := <-seen; got.Text != "x" {
		t.Fatalf("got %+v", got)
	}
	if len(other) != 0 {
		t.Fatal("heard another conversation")
	}
	stop()
	stop() // a second time does nothing
	if _, open := <-seen; open {
		t.Fatal("a watcher that left is not closed")
	}
	h.Publish(event(message.Said, "to nobody"))
}

func TestSlowWatcherIsCutOff(t *testing.T) {
	h := watch.NewHub(3)
	_, slow, stop := h.Watch("web", "a")
	defer stop()
	for range 4 {
		h.Publish(event(message.Said, ""))
	}
	n := 0
	for range slow {
		n++
	}
	if n != 3 {
		t.Fatalf("got %d events before the end, want 3", n)
	}
}

func TestLateWatcherIsTold(t *testing.T) {
	begin := event(message.TurnStarted, "")
	for _, tt := range []struct {
		name string
		did  []message.Event
		want string
	}{
		{"nothing runs", nil, ""},
		{"a turn that nobody saw begin", []message.Event{event(message.TextDelta, "x")}, ""},
		{"a text in the making", []message.Event{begin, event(message.TextDelta, "one "), event(message.TextDelta, "two")},
			"turn_started text_delta:one two"},
		{"a text that is void", []message.Event{begin, event(message.TextDelta, "one"), event(message.TextReset, ""), event(message.TextDelta, "two")},
			"turn_started text_delta:two"},
		{"nothing to be void", []message.Event{begin, event(message.TextReset, "")}, "turn_started"},
		{"a call that runs", []message.Event{
			begin, event(message.TextDelta, "let me see"), call(message.ToolCall, "c", ""), call(message.ToolProgress, "c", "a\n"), call(message.ToolProgress, "c", "b\n"),
		}, "turn_started text_delta:let me see tool_call tool_progress:a\nb\n"},
		{"calls side by side", []message.Event{
			begin, call(message.ToolProgress, "c", "a"), call(message.ToolProgress, "d", "b"), call(message.ToolProgress, "c", "c"),
		}, "turn_started tool_progress:a tool_progress:b tool_progress:c"},
		{"a text is one of its call", []message.Event{
			begin, event(message.TextDelta, "a"), call(message.ToolCall, "c", ""), call(message.ToolResult, "c", "r"), event(message.TextDelta, "b"),
		}, "turn_started text_delta:a tool_call tool_result:r text_delta:b"},
		{"a turn that has ended", []message.Event{begin, event(message.TextDelta, "one"), event(message.TurnDone, "")}, ""},
		{"a turn that begins anew", []message.Event{begin, event(message.TextDelta, "one"), begin}, "turn_started"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := watch.NewHub(0)
			for _, e := range tt.did {
				h.Publish(e)
			}
			told, _, stop := h.Watch("web", "a")
			defer stop()
			if got := words(told); got != tt.want {
				t.Errorf("told %q, want %q", got, tt.want)
			}
		})
	}
}

// words are events as one line.
func words(events []message.Event) string {
	var all []string
	for _, e := range events {
		word := string(e.Kind)
		if e.Text != "" {
			word += ":" + e.Text
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}

// The memory of a turn is bounded, and yet the text in the making is whole.
func TestMemoryIsBounded(t *testing.T) {
	h := watch.NewHub(0)
	h.Publish(event(message.TurnStarted, ""))
	for range 100 {
		h.Publish(call(message.ToolCall, "c", ""))
		for range 20 {
			h.Publish(call(message.ToolProgress, "c", strings.Repeat("x", 64<<10)))
		}
		h.Publish(call(message.ToolResult, "c", strings.Repeat("x", 64<<10)))
	}
	for range 100 {
		h.Publish(event(message.TextDelta, strings.Repeat("y", 10<<10)))
	}
	told, _, stop := h.Watch("web", "a")
	defer stop()
	size := 0
	for _, e := range told {
		size += len(e.Text)
	}
	if size > 2<<20 {
		t.Errorf("%d bytes are remembered", size)
	}
	if last := told[len(told)-1]; last.Kind != message.TextDelta || len(last.Text) != 1000<<10 {
		t.Errorf("the text in the making has %d bytes", len(last.Text))
	}
	if told[0].Kind != message.TurnStarted {
		t.Errorf("it begins with %s", told[0].Kind)
	}
}
