package channel

import (
	"fmt"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
)

// paired are pairings: roles by sender key.
type paired map[message.SenderKey]string

func (p paired) Role(senderKey message.SenderKey) (string, bool) {
	role, ok := p[senderKey]
	return role, ok
}

// house is the configuration of the tests: one channel for each mode, and one of each that listens to all that is said in groups.
func house() *config.Config {
	c := &config.Config{
		Access: config.Access{
			Mode: "allowlist", Groups: "addressed", RatePerMinute: 1000, ConversationRatePerMinute: 10_000, UnknownRatePerMinute: 10_000,
			Owners:  []string{"*:ann", "irc:opal", "pair:opal", "open:opal", "irc-all:opal", "pair-all:opal", "open-all:opal"},
			Members: []string{"*:mia", "*:mallory"}, Blocked: []string{"*:mallory", "*:spam-*", "*:opal", "web:*"},
		},
		Channels: map[string]config.Channel{},
	}
	for name, mode := range map[string]string{"irc": "", "pair": "pair", "open": "open"} {
		c.Channels[name] = config.Channel{Access: mode}
		c.Channels[name+"-all"] = config.Channel{Access: mode, AccessGroups: "all"}
	}
	return c
}

func newGate(c *config.Config, now func() time.Time) *Gate {
	p := paired{}
	for name := range c.Channels {
		p[message.NewSenderKey(name, "gus")], p[message.NewSenderKey(name, "may")], p[message.NewSenderKey(name, "spam-pat")], p[message.NewSenderKey(name, "robot")] = route.Guest, route.Member, route.Member, route.Member
	}
	return NewGate(GateConfig{Config: c, Roles: route.NewRoles(c.Access, route.AllProved).With(p), Now: now})
}

// TestGate is mode x person x conversation. A line has, for the modes allowlist, pair and open, the decision in a private chat, in a group
// addressed, in a group not addressed, and in a group not addressed where groups is all.
func TestGate(t *testing.T) {
	decisions := map[rune]Decision{
		'a': Allowed, 'b': Blocked, 'r': Program, 'n': NotAddressed, 'l': NotListed, 'p': NotPaired, 'C': Pairing,
	}
	for _, c := range []struct{ who, id, want string }{
		{"an owner by a glob", "ann", "aana aana aana"},
		{"an owner by id, whom a glob blocks", "opal", "aana aana aana"},
		{"a member", "mia", "aana aana aana"},
		{"a member who is blocked", "mallory", "bbbb bbbb bbbb"},
		{"paired as guest", "gus", "aana aana aana"},
		{"paired as member", "may", "aana aana aana"},
		{"paired and blocked", "spam-pat", "bbbb bbbb bbbb"},
		{"a stranger", "eve", "llnl Cpnp aana"},
		{"a stranger who is blocked", "spam-1", "bbbb bbbb bbbb"},
		{"a program, though paired", "robot", "rrrr rrrr rrrr"},
	} {
		for i, mode := range []string{"irc", "pair", "open"} {
			for j, scope := range []string{"private", "addressed", "not addressed", "all"} {
				t.Run(fmt.Sprintf("%s/%s/%s", c.who, mode, scope), func(t *testing.T) {
					m := message.Message{
						Channel: mode, Sender: message.Sender{ID: c.id, Bot: c.id == "robot", Name: "ann"}, Conversation: message.Conversation{ID: "x", Kind: message.DM},
						Addressed: j < 2,
					}
					if j > 0 {
						m.Conversation.Kind = message.Group
					}
					if j == 3 {
						m.Channel += "-all"
					}
					want := decisions[rune(c.want[i*5+j])]
					g := newGate(house(), time.Now)
					got := g.Admit(m)
					if got.Decision != want || got.Allowed != (want == Allowed) || got.Why != want.Why() || (got.Why == "") != got.Allowed {
						t.Errorf("admission is %+v, want %s", got, want)
					}
					if why := g.Refusal(m); why != want.Why() {
						t.Errorf("taken up later it is %q, want %q", why, want.Why())
					}
				})
			}
		}
	}
}

func TestGateOfOtherMessages(t *testing.T) {
	private := message.Conversation{ID: "x", Kind: message.DM}
	for _, c := range []struct {
		name string
		m    message.Message
		want Decision
	}{
		{"the web page, which nothing blocks", message.Message{Channel: "web", Sender: message.Sender{ID: "owner"}}, Allowed},
		{"the terminal", message.Message{Channel: "terminal", Sender: message.Sender{ID: "owner"}}, Allowed},
		{"an API frontend is not local", message.Message{Channel: "openai", Sender: message.Sender{ID: "x"}, Conversation: private}, NotAClient},
		{"the holder of the token at one", message.Message{Channel: "openai", Sender: message.Sender{ID: "owner", Bot: true}}, Allowed},
		{"a program that is blocked", message.Message{Channel: "mcp", Sender: message.Sender{ID: "spam-bot"}}, Blocked},
		{"the same name on a channel that there is not", message.Message{Channel: "irc2", Sender: message.Sender{ID: "opal"}, Conversation: private}, Blocked},
		{"a stranger's reaction gets no code", message.Message{Channel: "pair", Sender: message.Sender{ID: "eve"}, Conversation: private, Act: message.React}, NotPaired},
		{"a thread is a group", message.Message{Channel: "pair", Sender: message.Sender{ID: "eve"}, Conversation: message.Conversation{ID: "x", Kind: message.Thread}, Addressed: true}, NotPaired},
		{"no kind is no private chat", message.Message{Channel: "pair", Sender: message.Sender{ID: "eve"}, Conversation: message.Conversation{ID: "x"}, Addressed: true}, NotPaired},
		{"a glob is no id", message.Message{Channel: "irc", Sender: message.Sender{ID: "mia*"}, Conversation: private}, NotListed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := newGate(house(), time.Now).Admit(c.m); got.Decision != c.want {
				t.Errorf("admission is %+v, want %s", got, c.want)
			}
		})
	}
}

func TestRates(t *testing.T) {
	c := house()
	c.Access.RatePerMinute, c.Access.ConversationRatePerMinute, c.Access.UnknownRatePerMinute = 3, 5, 4
	now := noon
	g := newGate(c, func() time.Time { return now })
	say := func(channel, who, where string) Decision {
		return g.Admit(message.Message{
			Channel: channel, Sender: message.Sender{ID: who}, Conversation: message.Conversation{ID: where, Kind: message.DM},
		}).Decision
	}
	expect := func(name, channel, who, where string, want ...Decision) {
		t.Helper()
		for i, w := range want {
			if got := say(channel, who, where); got != w {
				t.Errorf("%s: message %d is %s, want %s", name, i, got, w)
			}
		}
	}
	expect("one sender", "irc", "mia", "1", Allowed, Allowed, Allowed, SenderRate, SenderRate)
	expect("another does not pay for him", "irc", "ann", "2", Allowed)
	expect("nor he on another channel", "irc-all", "mia", "3", Allowed)
	expect("one conversation of many", "irc", "gus", "4", Allowed, Allowed, Allowed)
	expect("one conversation of many", "irc", "may", "4", Allowed, Allowed, ConversationRate)
	expect("strangers together", "open", "eve", "5", Allowed, Allowed)
	expect("strangers together, codes among them", "pair", "eve", "6", Pairing, Pairing, UnknownRate)
	expect("strangers together", "open", "bob", "7", UnknownRate)
	expect("known people do not pay for strangers", "open", "gus", "8", Allowed)
	expect("the local frontends have no rate", "web", "owner", "9", Allowed, Allowed, Allowed, Allowed, Allowed, Allowed, Allowed)
	now = now.Add(20 * time.Second)
	expect("one more after 20 s", "irc", "mia", "1", Allowed, SenderRate)
	expect("one more of strangers after 20 s", "open", "zoe", "10", Allowed, UnknownRate)
}

func TestCrowdsAreNotRemembered(t *testing.T) {
	c := house()
	c.Access.RatePerMinute = 1
	g := newGate(c, func() time.Time { return noon })
	say := func(who string) Decision {
		return g.Admit(message.Message{Channel: "open", Sender: message.Sender{ID: who}, Conversation: message.Conversation{ID: who, Kind: message.DM}}).Decision
	}
	say("mia")
	for i := range maxRates + 10 {
		say(fmt.Sprint("stranger", i))
	}
	for name, r := range map[string]*rates{"known": g.known, "others": g.others, "conversations": g.conversations} {
		if n := len(r.byKey); n > maxRates {
			t.Errorf("%d are remembered of %s", n, name)
		}
	}
	if got := say("mia"); got != SenderRate {
		t.Errorf("a crowd of strangers made the host forget a member's rate: %s", got)
	}
}

// TestGateOfTheConsole: a person at the console is admitted as in a private chat of his channel, and only to conversations of his own.
func TestGateOfTheConsole(t *testing.T) {
	own := func(sender message.SenderKey) string { return message.ConsoleConversation(sender, "x") }
	for _, c := range []struct {
		name         string
		sender       message.SenderKey
		conversation string
		off          bool
		proof        message.SenderProof
		want         Decision
	}{
		{"a member", "irc:mia", own("irc:mia"), false, message.SendersProved, Allowed},
		{"paired", "pair:gus", own("pair:gus"), false, message.SendersProved, Allowed},
		{"blocked", "irc:mallory", own("irc:mallory"), false, message.SendersProved, Blocked},
		{"a stranger", "irc:eve", own("irc:eve"), false, message.SendersProved, NotListed},
		{"a stranger where codes are given", "pair:eve", own("pair:eve"), false, message.SendersProved, NotListed},
		{"a stranger where all are welcome", "open:eve", own("open:eve"), false, message.SendersProved, Allowed},
		{"somebody else's conversation", "irc:mia", own("irc:ann"), false, message.SendersProved, NotTheirs},
		{"a conversation that begins like his", "irc:mia", own("irc:mia~x"), false, message.SendersProved, NotTheirs},
		{"no conversation", "irc:mia", "x", false, message.SendersProved, NotTheirs},
		{"a channel that is off", "irc:mia", own("irc:mia"), true, message.SendersProved, NotProved},
		{"a channel that is not there", "gone:mia", own("gone:mia"), false, message.SendersProved, NotProved},
		{"who is not proved", "irc:mia", own("irc:mia"), false, message.SendersClaimed, NotProved},
		{"an unverified name", "irc:?mia", own("irc:?mia"), false, message.SendersProved, NotProved},
		{"this machine", "web:owner", own("web:owner"), false, message.SendersProved, NotProved},
		{"an API client", "openai:app", own("openai:app"), false, message.SendersProved, NotProved},
		{"the console itself", "console:irc:mia", own("console:irc:mia"), false, message.SendersProved, NotProved},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := house()
			for name, channel := range cfg.Channels {
				channel.Enabled = !c.off
				cfg.Channels[name] = channel
			}
			g := newGate(cfg, time.Now)
			g.Roles = route.NewRoles(cfg.Access, func(string) message.SenderProof { return c.proof }).With(paired{"pair:gus": route.Guest})
			got := g.Admit(message.Message{
				Channel: message.ConsoleChannel, Sender: message.Sender{ID: string(c.sender)}, Conversation: message.Conversation{ID: c.conversation, Kind: message.DM},
				Addressed: true,
			})
			if got.Decision != c.want || got.Allowed != (c.want == Allowed) {
				t.Errorf("%s in %s: %+v, want %s", c.sender, c.conversation, got, c.want)
			}
		})
	}
}
