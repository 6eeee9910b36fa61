package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

// TestTwoHosts moves a bot between two hosts, each of which is suspended with its plugin running on. The fake platform, which answers a second
// poller with a conflict, never has two, and every message comes exactly once, by its id.
func TestTwoHosts(t *testing.T) {
	const length = 2 * time.Second
	s := telegramtest.Start(t)
	chat := s.Private("Ann")
	leases := [2]*plugintest.Leases{plugintest.NewLeases(1, length), plugintest.NewLeases(0, 0)}
	var hosts [2]*plugintest.Host
	for i := range hosts {
		hosts[i] = plugintest.Start(t, &plugin{}, plugintest.Config{
			Settings: map[string]any{"api_url": s.URL}, Secrets: map[string]string{"token": telegramtest.Token}, Leases: leases[i],
		})
	}
	got := map[string]string{} // text by id, as a store that two hosts share
	take := func(h *plugintest.Host, text string, ack bool) {
		t.Helper()
		for {
			e := h.Event()
			got[e.ID] = e.Text
			if ack {
				h.Ack()
			}
			if e.Text == text {
				return
			}
		}
	}
	const turns = 3
	var texts []string
	say := func(text string) string {
		texts = append(texts, text)
		chat.Say(text)
		return text
	}
	for turn := range turns {
		has, next := turn%2, (turn+1)%2
		hosts[has].WaitStatus(channel.StateReady)
		take(hosts[has], say(fmt.Sprint("acked ", turn)), true)
		s.AwaitConfirmed()
		unacked := say(fmt.Sprint("unacked ", turn))
		take(hosts[has], unacked, false)
		expired := leases[has].Suspend()
		missed := say(fmt.Sprint("missed ", turn))
		time.Sleep(time.Until(expired)) // the successor waits for the lease, not for the plugin
		polls := len(s.Calls("getUpdates"))
		leases[next].Grant(int64(turn+2), length)
		hosts[next].WaitStatus(channel.StateReady)
		take(hosts[next], missed, true)
		s.AwaitConfirmed()
		if n := len(s.Calls("getUpdates")); n <= polls {
			t.Errorf("%d polls before the change, %d after it", polls, n)
		}
		hosts[has].Ack() // what it had sent; nobody waits for it any more
	}
	for _, text := range texts {
		n := 0
		for _, have := range got {
			if have == text {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%q came as %d messages", text, n)
		}
	}
	if n := s.Conflicts(); n != 0 {
		t.Errorf("two programs polled at the same time %d times", n)
	}
}
