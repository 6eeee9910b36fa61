package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest/delivery"
)

// TestALongAnswerArrivesOnce sends answers into a channel, where Discord allows five messages in five seconds.
func TestALongAnswerArrivesOnce(t *testing.T) {
	limit := &delivery.Platform{Burst: 5, Every: time.Second}
	delivery.LongAnswers(t, limit, channel.Conversation{ID: "1574309523995230208"}, func(t *testing.T, on *delivery.Platform) channel.Channel {
		p := &plugin{
			log: slog.New(slog.DiscardHandler), client: newClient(settings{API: "http://discord.test"}),
			world: newWorld(), sends: newSends(),
		}
		p.client.http.Transport = delivery.Wire(func(w http.ResponseWriter, r *http.Request) {
			var m outgoing
			if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
				t.Error(err)
			}
			if wait := on.Show(m.Content); wait > 0 {
				w.WriteHeader(http.StatusTooManyRequests)
				fmt.Fprintf(w, `{"retry_after":%f}`, wait.Seconds())
				return
			}
			fmt.Fprint(w, `{"id":"7"}`)
		})
		return p
	})
}
