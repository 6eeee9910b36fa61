package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest/delivery"
)

// TestALongAnswerArrivesOnce sends answers to a homeserver that allows two messages at once and then one in five seconds.
func TestALongAnswerArrivesOnce(t *testing.T) {
	limit := &delivery.Platform{Burst: 2, Every: 5 * time.Second}
	delivery.LongAnswers(t, limit, channel.Conversation{ID: "!r:matrix.test"}, func(t *testing.T, on *delivery.Platform) channel.Channel {
		p := &plugin{client: &client{base: "http://matrix.test", token: "x", http: &http.Client{}}}
		p.client.http.Transport = delivery.Wire(func(w http.ResponseWriter, r *http.Request) {
			var m struct {
				Body string `json:"body"`
			}
			if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
				t.Error(err)
			}
			if wait := on.Show(m.Body); wait > 0 {
				w.WriteHeader(http.StatusTooManyRequests)
				fmt.Fprintf(w, `{"errcode":"M_LIMIT_EXCEEDED","error":"too many","retry_after_ms":%d}`, wait.Milliseconds()+1)
				return
			}
			fmt.Fprint(w, `{"event_id":"$7"}`)
		})
		return p
	})
}
