package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest/delivery"
)

// TestALongAnswerArrivesOnce posts answers to a system that takes one in a minute.
func TestALongAnswerArrivesOnce(t *testing.T) {
	limit := &delivery.Platform{Burst: 1, Every: time.Minute}
	delivery.LongAnswers(t, limit, channel.Conversation{ID: "c"}, func(t *testing.T, on *delivery.Platform) channel.Channel {
		p := &plugin{settings: settings{DeliverURL: "http://system.test/in", TimeoutMS: 10_000}, now: time.Now, client: &http.Client{}}
		p.client.Transport = delivery.Wire(func(w http.ResponseWriter, r *http.Request) {
			var m outbound
			if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
				t.Error(err)
			}
			if wait := on.Show(m.Text); wait > 0 {
				w.Header().Set("Retry-After", fmt.Sprint(int(math.Ceil(wait.Seconds()))))
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		return p
	})
}
