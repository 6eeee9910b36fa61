package main

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	long "github.com/flynnhost/flynn/sdk/plugintest/delivery"
)

// TestALongAnswerArrivesOnce sends answers into a channel, where Slack allows one message a second.
func TestALongAnswerArrivesOnce(t *testing.T) {
	limit := &long.Platform{Burst: 1, Every: time.Second}
	long.LongAnswers(t, limit, channel.Conversation{ID: "C1"}, func(t *testing.T, on *long.Platform) channel.Channel {
		p := known("never")
		p.web = newWeb(settings{APIURL: "http://slack.test/api/", bot: "xoxb-1", app: "xapp-1"})
		p.web.http.Transport = long.Wire(func(w http.ResponseWriter, r *http.Request) {
			if wait := on.Show(r.FormValue("text")); wait > 0 {
				w.Header().Set("Retry-After", fmt.Sprint(int(math.Ceil(wait.Seconds()))))
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"ok":true,"channel":"C1","ts":"1700000000.000001"}`)
		})
		return p
	})
}
