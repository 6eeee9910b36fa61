package chat

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway/client/link"
	"github.com/flynnhost/flynn/host/message"
)

func TestPlace(t *testing.T) {
	for where, want := range map[string]string{
		"": "on the host", "host": "on the host", "sandbox": "in the sandbox", "builds": "in sandbox builds", "own container": "in a container of its own",
	} {
		if got := link.Place(where); got != want {
			t.Errorf("place(%q) is %q, want %q", where, got, want)
		}
	}
}

// Of what a call does, its result is shown; what it waits for is shown while it waits.
func TestWaiting(t *testing.T) {
	var out, err strings.Builder
	p := newPrinter(Config{Out: &out, Err: &err})
	p.event(message.Event{Kind: message.ToolProgress, Text: "building \x1b[31mimage\n", Waiting: true})
	p.event(message.Event{Kind: message.ToolProgress, Text: "output\n"})
	if got := err.String(); out.String() != "" || strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "  building ") || strings.Contains(got, "\x1b") {
		t.Errorf("printed %q and %q", out.String(), got)
	}
}
