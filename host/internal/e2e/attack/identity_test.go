package attack

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool/builtin"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

// people is a host with an owner, whose rules say nothing about how a channel knows him.
const people = `
[store]
dir = "%DIR%/state"
[gateway]
listen = "127.0.0.1:0"
token_file = "%DIR%/gateway.token"
[models.default]
provider = "demo"
[access]
owners = ["chat:boss"]
members = ["chat:*"]
rate_per_minute = 10_000
conversation_rate_per_minute = 10_000
[sessions]
queue = "followup"
[routing]
default_agent = "main"
[agent_configs.main]
[plugins.dev_paths]
chat = "%DIR%/plugin"
[channels.chat]
plugin = "chat"
`

// TestANameIsNoOwner: who calls himself like the owner stops nothing where the channel does not prove who he is, and the owner does where it
// does. The same words come from the same sender each time.
func TestANameIsNoOwner(t *testing.T) {
	for name, c := range map[string]struct {
		proof        channel.SenderProof
		more, sender string
		want         bool
	}{
		"proved":                         {channel.SendersProved, "", "boss", true},
		"proved, and not of this sender": {channel.SendersProved, "", "?boss", false},
		"claimed":                        {channel.SendersClaimed, "", "boss", false},
		"nobody is told apart":           {channel.SendersUnproved, "", "boss", false},
		"a plugin that does not say":     {channel.SendersUnsaid, "", "boss", false},
		"claimed, which is accepted":     {channel.SendersClaimed, "trust_senders = true\n", "boss", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSiteThatProves(t, people+c.more, builtin.WebConfig{}, c.proof)
			event := s.says(c.sender, "dm", "/halt everything")
			if c.sender == "boss" {
				s.row("chat", event, mailbox.InboxDone)
			} else {
				s.row("chat", event, mailbox.InboxDropped)
			}
			if halt, err := s.store.Halt(t.Context()); err != nil || halt.On != c.want {
				t.Errorf("halted is %v, want %v (%v)", halt.On, c.want, err)
			}
		})
	}
}

// TestNoGroupSeesWhatWasSaidInPrivate: for every identifier that a platform may send, somebody of that id writes privately in a conversation
// of the same id and in another, and somebody else in a group of that id. Each private conversation is a session of its own.
func TestNoGroupSeesWhatWasSaidInPrivate(t *testing.T) {
	s := newSite(t, people)
	session := func(e channel.Event) message.SessionKey {
		t.Helper()
		row := s.row("chat", s.said(e), mailbox.InboxDone)
		var of message.SessionKey
		s.eventually("the turn of "+e.Text, func() error {
			for _, turn := range s.turns(place{"chat", e.Conversation.ID}) {
				if len(turn.Inbox) == 1 && turn.Inbox[0] == row.ID {
					of = turn.Session
					return nil
				}
			}
			return errors.New("there is none")
		})
		return of
	}
	owners := map[message.SessionKey]string{} // whose a session is
	for i, id := range rude.IDs() {
		say := func(kind channel.ConversationKind, sender, conversation string) message.SessionKey {
			return session(channel.Event{
				Conversation: channel.Conversation{ID: conversation, Kind: kind}, Sender: channel.Sender{ID: sender}, Addressed: true,
				Text: fmt.Sprintf("said %d of %d", kind, i),
			})
		}
		probe := channel.Event{ID: "p", Conversation: channel.Conversation{ID: id.Text}, Sender: channel.Sender{ID: id.Text}}
		if malformed(s, probe) || strings.HasPrefix(id.Text, "?") { // one has no way in, the other no rule
			continue
		}
		t.Run(id.Name, func(t *testing.T) {
			private, other := say(channel.DM, id.Text, id.Text), say(channel.DM, id.Text, fmt.Sprint("other-", i))
			group := say(channel.Group, "bob", id.Text)
			if private != other {
				t.Errorf("one person has the sessions %q and %q in private", private, other)
			}
			for key, whose := range map[message.SessionKey]string{private: "private " + id.Name, group: "group " + id.Name} {
				if before, taken := owners[key]; taken {
					t.Errorf("%s shares %q with %s", whose, key, before)
				}
				owners[key] = whose
			}
		})
	}
}

// malformed reports whether the SDK refuses an event.
func malformed(s *site, e channel.Event) bool {
	err := s.chat.in.Deliver(s.t.Context(), e)
	return errors.Is(err, channel.ErrMalformed)
}
