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

// TestALongAnswerArrivesOnce sends answers to one person, to whom Meta allows one message in six seconds and a burst of 45.
func TestALongAnswerArrivesOnce(t *testing.T) {
	limit := &delivery.Platform{Burst: 45, Every: 6 * time.Second}
	delivery.LongAnswers(t, limit, channel.Conversation{ID: "4915112345678", Kind: channel.DM}, func(t *testing.T, on *delivery.Platform) channel.Channel {
		set := settings{APIURL: "http://graph.test", PhoneNumberID: "1", token: "x"}
		c := newCloud(set, channel.Config{Log: slog.New(slog.DiscardHandler)})
		c.graph.http.Transport = delivery.Wire(func(w http.ResponseWriter, r *http.Request) {
			var m struct {
				Text struct {
					Body string `json:"body"`
				} `json:"text"`
			}
			if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
				t.Error(err)
			}
			if on.Show(m.Text.Body) > 0 {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"error":{"code":131056,"message":"(Business Account, Consumer Account) pair rate limit hit"}}`)
				return
			}
			fmt.Fprint(w, `{"messages":[{"id":"wamid.7"}]}`)
		})
		return &plugin{line: c}
	})
}
