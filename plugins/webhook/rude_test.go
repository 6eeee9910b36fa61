package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/flynnhost/flynn/plugins/webhook/webhooktest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

// TestWhatIsTakenReachesTheHostAsItIs sends every rude identifier in every place for one. Either it is refused with 400 and the host hears
// nothing, or the host has it, byte for byte, before the system hears "taken".
func TestWhatIsTakenReachesTheHostAsItIs(t *testing.T) {
	s := webhooktest.New(t)
	h := start(t, s)
	h.WaitStatus(channel.StateReady)
	refused := []string{"nul", "line_end", "tab", "unit", "delete", "next_line", "not_utf8", "at_257", "at_3000", "half_a_pair"}
	ids := append(rude.IDs(), rude.Value{Name: "half_a_pair", Text: `\ud800`})
	fields := map[string]struct {
		body string
		read func(channel.Event) string
	}{
		"sender":       {`{"text":"x","sender":{"id":%s}}`, func(e channel.Event) string { return e.Sender.ID }},
		"conversation": {`{"text":"x","sender":{"id":"u1"},"conversation":%s}`, func(e channel.Event) string { return e.Conversation.ID }},
		"reply_to":     {`{"text":"x","sender":{"id":"u1"},"reply_to":%s}`, func(e channel.Event) string { return e.ReplyTo }},
	}
	for field, f := range fields {
		for i, id := range ids {
			t.Run(field+"/"+id.Name, func(t *testing.T) {
				quoted, err := json.Marshal(id.Text)
				if err != nil {
					t.Fatal(err)
				}
				if id.Name == "not_utf8" || id.Name == "half_a_pair" { // as it stands
					quoted = []byte(`"` + id.Text + `"`)
				}
				answered := make(chan int, 1)
				r := request(s, fmt.Sprintf("%s-%d", field, i), fmt.Sprintf(f.body, quoted))
				go func() { answered <- h.Webhook("in", r).StatusCode }()
				if slices.Contains(refused, id.Name) || id.Name == "empty" && field != "reply_to" {
					if got := <-answered; got != http.StatusBadRequest {
						t.Errorf("status %d, want 400", got)
					}
					return
				}
				if got := f.read(h.Event()); got != id.Text {
					t.Errorf("the host has %q", got)
				}
				select {
				case got := <-answered:
					t.Errorf("status %d before the host's ack", got)
				case <-time.After(time.Millisecond):
				}
				h.Ack()
				if got := <-answered; got != http.StatusAccepted {
					t.Errorf("status %d, want 202", got)
				}
			})
		}
	}
}
