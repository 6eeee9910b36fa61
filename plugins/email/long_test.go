package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/plugins/email/emailtest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
	"github.com/flynnhost/flynn/sdk/plugintest/delivery"
)

// TestALongAnswerArrivesOnce sends answers through a server that puts each mail off twice, with a minute between the tries on the
// clock of the test, and with a new process of the plugin after each.
func TestALongAnswerArrivesOnce(t *testing.T) {
	for _, n := range delivery.Answers() {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := newSite(t, emailtest.New(t))
			to := s.talk().Conversation
			can := (&plugin{}).Describe().Capabilities
			var slept time.Duration
			s.Next(emailtest.Trouble{At: emailtest.AtRecipient, Code: 451}, emailtest.Trouble{At: emailtest.AtData, Code: 452})
			start := func() *plugintest.Host { // the first is there already
				if slept > 0 {
					s.start()
				}
				return s.host
			}
			got := delivery.Deliver(t, start, can, channel.Send{
				Key: "k", Conversation: to, Text: strings.Join(delivery.Lines(n), "\n\n"),
			}, delivery.Delivery{Restart: 1, Sleep: func(d time.Duration) { slept += d }})
			var texts []string
			for _, m := range s.Sent(t.Context(), 1+len(delivery.Lines(n))/1900) {
				texts = append(texts, partsOf(t, m.Raw)["text/plain"])
			}
			delivery.CheckLines(t, texts, n)
			if got.Marked > 0 || slept < 2*pause {
				t.Errorf("%d calls, %d of them marked, after pauses of %s", got.Calls, got.Marked, slept)
			}
		})
	}
}
