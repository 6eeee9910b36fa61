package main

import (
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest/delivery"
)

// TestALongAnswerArrivesOnce sends answers into a group, where Telegram allows twenty messages a minute.
func TestALongAnswerArrivesOnce(t *testing.T) {
	limit := &delivery.Platform{Burst: 20, Every: 3 * time.Second}
	delivery.LongAnswers(t, limit, channel.Conversation{ID: "-100", Kind: channel.Group}, func(t *testing.T, on *delivery.Platform) channel.Channel {
		set := settings{APIURL: "http://telegram.test", token: "1:x"}
		api, err := newAPI(set)
		if err != nil {
			t.Fatal(err)
		}
		api.wire.client.Transport = delivery.Wire(func(w http.ResponseWriter, r *http.Request) {
			if wait := on.Show(r.FormValue("text")); wait > 0 {
				w.WriteHeader(http.StatusTooManyRequests)
				fmt.Fprintf(w, `{"ok":false,"error_code":429,"description":"Too Many Requests","parameters":{"retry_after":%d}}`, int(math.Ceil(wait.Seconds())))
				return
			}
			fmt.Fprint(w, `{"ok":true,"result":{"message_id":7,"chat":{"id":-100}}}`)
		})
		moves, err := openMoves(channel.Config{StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return &plugin{settings: set, log: slog.New(slog.DiscardHandler), api: api, moves: moves}
	})
}
