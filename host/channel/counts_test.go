package channel

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

// opened records what a gate says of sessions.
type opened map[string]bool

func (o opened) Open(sender message.SenderKey, scope string, _ bool) (bool, error) {
	key := string(sender) + " in " + scope
	was := o[key]
	o[key] = true
	return !was, nil
}

func (o opened) Opened(sender message.SenderKey, scope string) { o[string(sender)+" in "+scope] = true }

// TestRatesHoldForAllHosts: two hosts that tell each other what they have admitted admit a rate's worth between them, and what they admitted
// before they heard of each other is paid back.
func TestRatesHoldForAllHosts(t *testing.T) {
	const rate = 10
	for name, c := range map[string]struct {
		access config.Access
		of     func(i int) message.Message // the i-th message; all are bounded by one rate
		why    Decision
	}{
		"a sender": {
			config.Access{Mode: config.AccessOpen, RatePerMinute: rate, ConversationRatePerMinute: 1000, UnknownRatePerMinute: 1000},
			func(i int) message.Message { return said("ann", fmt.Sprint("c", i)) }, SenderRate,
		},
		"an owner": {
			config.Access{Mode: config.AccessOpen, Owners: []string{"irc:ann"}, RatePerMinute: rate, ConversationRatePerMinute: 1000, UnknownRatePerMinute: 1},
			func(i int) message.Message { return said("ann", fmt.Sprint("c", i)) }, SenderRate,
		},
		"a conversation": {
			config.Access{Mode: config.AccessOpen, RatePerMinute: 1000, ConversationRatePerMinute: rate, UnknownRatePerMinute: 1000},
			func(i int) message.Message { return said(fmt.Sprint("p", i), "c") }, ConversationRate,
		},
		"strangers": {
			config.Access{Mode: config.AccessOpen, RatePerMinute: 1000, ConversationRatePerMinute: 1000, UnknownRatePerMinute: rate},
			func(i int) message.Message { return said(fmt.Sprint("p", i), fmt.Sprint("c", i)) }, UnknownRate,
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			var hosts [2]*Gate
			for i := range hosts {
				cfg := &config.Config{Access: c.access, Channels: map[string]config.Channel{"irc": {Enabled: true}}}
				hosts[i] = NewGate(GateConfig{Config: cfg, Roles: route.NewRoles(cfg.Access, route.AllProved), Now: func() time.Time { return now }})
				hosts[i].Admitted() // somebody collects from now on
			}
			n := 0
			admits := func(g *Gate) bool {
				n++
				got := g.Admit(c.of(n))
				if !got.Allowed && got.Decision != c.why {
					t.Fatalf("message %d: %s", n, got.Decision)
				}
				return got.Allowed
			}
			tells := func() {
				for i, from := range hosts {
					for _, c := range from.Admitted() {
						hosts[1-i].Counted(c)
					}
				}
			}
			admitted := 0
			for i := range 4 * rate { // in turns, and each hears of the other
				if admits(hosts[i%2]) {
					admitted++
				}
				tells()
			}
			if admitted != rate {
				t.Errorf("%d are admitted by hosts that hear of each other, want %d", admitted, rate)
			}
			now = now.Add(10 * time.Minute)
			admitted = 0
			for i := range 4 * rate { // before they hear of each other
				if admits(hosts[i%2]) {
					admitted++
				}
			}
			if admitted != 2*rate {
				t.Errorf("%d are admitted by hosts that have not heard of each other, want %d", admitted, 2*rate)
			}
			tells()
			for _, after := range []struct {
				time time.Duration
				want bool
			}{{59 * time.Second, false}, {8 * time.Second, true}} {
				now = now.Add(after.time)
				if got := admits(hosts[0]); got != after.want {
					t.Errorf("another %s later a message is admitted: %v", after.time, got)
				}
			}
		})
	}
}

func said(sender, conversation string) message.Message {
	return message.Message{
		Channel: "irc", Addressed: true, Sender: message.Sender{ID: sender}, Conversation: message.Conversation{ID: conversation, Kind: message.DM},
	}
}

// TestCountsComeBackAsTheyAre: of senders and conversations with any ids, and of none that nobody collects.
func TestCountsComeBackAsTheyAre(t *testing.T) {
	cfg := &config.Config{Access: config.Access{Mode: config.AccessOpen, RatePerMinute: 1000, ConversationRatePerMinute: 1000, UnknownRatePerMinute: 1000}}
	var sessions [2]opened
	var hosts [2]*Gate
	for i := range hosts {
		sessions[i] = opened{}
		hosts[i] = NewGate(GateConfig{
			Config: cfg, Roles: route.NewRoles(cfg.Access, route.AllProved), Sessions: sessions[i], Scopes: &route.Scopes{}, Now: time.Now,
		})
	}
	hosts[0].Admit(said("before", "anybody asks"))
	if got := hosts[0].Admitted(); len(got) > 0 {
		t.Errorf("a host alone counts %+v", got)
	}
	for _, id := range rude.IDs() {
		if storable := utf8.ValidString(id.Text) && !strings.ContainsRune(id.Text, 0); !storable {
			continue
		}
		if a := hosts[0].Admit(said(id.Text, id.Text)); !a.Allowed {
			t.Errorf("%s: %s", id.Name, a.Decision)
		}
	}
	hosts[0].Admit(said("a\x00b", "\xff")) // which no store takes
	for key := range sessions[0] {
		if strings.ContainsRune(key, 0) || !utf8.ValidString(key) {
			delete(sessions[0], key)
		}
	}
	for _, c := range hosts[0].Admitted() {
		hosts[1].Counted(c)
	}
	delete(sessions[0], "irc:before in "+hosts[0].Scopes.Scope(said("before", "anybody asks")))
	for key := range sessions[0] {
		if !sessions[1][key] {
			t.Errorf("%q is not known at the other host", key)
		}
	}
	if len(sessions[0]) != len(sessions[1]) {
		t.Errorf("%d sessions and %d", len(sessions[0]), len(sessions[1]))
	}
}
