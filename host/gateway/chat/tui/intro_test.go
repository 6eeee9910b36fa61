package tui

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client/link"
)

// TestIntro: an empty conversation shows what to try, and Up brings it into the input; one with a past does not.
func TestIntro(t *testing.T) {
	for name, past := range map[string][]gateway.Entry{"empty": {}, "with a past": {{From: gateway.FromAgent, Text: "hi", Key: "k"}}} {
		m := newModel(Config{}, &network{})
		m.update(link.Update{Frame: gateway.ServerFrame{Type: gateway.TypeWelcome, Intro: &gateway.Intro{
			Notice: "This is the demo.", Try: []gateway.Suggestion{{Text: "hello", Does: "is answered"}, {Text: "/status", Does: "shows"}},
		}}})
		m.update(link.Update{Frame: gateway.ServerFrame{Type: gateway.TypeHistory, Entries: past}})
		shown := strings.Join(m.talk.out, "\n")
		want := len(past) == 0
		if strings.Contains(shown, "This is the demo.") != want || strings.Contains(shown, "  hello     is answered") != want {
			t.Errorf("%s: shown is %q", name, shown)
		}
		if got := m.input.past; want && (len(got) != 2 || got[1] != "hello") {
			t.Errorf("%s: Up brings back %q", name, got)
		}
	}
}
