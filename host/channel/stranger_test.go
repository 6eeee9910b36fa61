package channel

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/pairing"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// process is what one process has of admission: an inbox whose strangers get codes.
type process struct {
	inbox     *Inbox
	desk      *pairing.Desk
	delivered []store.InboxRow
}

func newProcess(t *testing.T, s *sqlite.Store, inbox store.Inbox) *process {
	t.Helper()
	p := &process{}
	var err error
	if p.desk, err = pairing.Open(t.Context(), pairing.Config{Store: s, Now: func() time.Time { return noon }}); err != nil {
		t.Fatal(err)
	}
	c := house()
	gate := NewGate(GateConfig{Config: c, Roles: route.NewRoles(c.Access).With(p.desk), Now: func() time.Time { return noon }})
	p.inbox = NewInbox(InboxConfig{
		Store: inbox, Admit: gate.Admit, Stranger: p.desk.Offer, MaxAge: 24 * time.Hour, Now: func() time.Time { return noon },
		Deliver: func(r store.InboxRow) { p.delivered = append(p.delivered, r) },
	})
	return p
}

func knock(event string) message.Message {
	return message.Message{
		Channel: "pair", EventID: event, Text: "let me in", SentAt: noon.Add(-time.Minute), Addressed: true,
		Conversation: message.Conversation{ID: "eve", Kind: message.DM}, Sender: message.Sender{ID: "eve"},
	}
}

// codes are the texts of the outbox.
func codes(t *testing.T, s *sqlite.Store) (texts []string) {
	t.Helper()
	rows, err := s.UnsentOutbox(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		texts = append(texts, r.Reply.Text)
	}
	return texts
}

func TestStrangers(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*message.Message)
		codes  int
		state  store.InboxState
		note   string
	}{
		{"in a private chat", func(*message.Message) {}, 1, store.InboxDropped, "sender is not paired"},
		{"in a group", func(m *message.Message) { m.Conversation.Kind = message.Group }, 0, store.InboxDropped, "sender is not paired"},
		{"not addressed", func(m *message.Message) { m.Conversation.Kind, m.Addressed = message.Group, false }, 0, store.InboxDropped, "not addressed"},
		{"long ago", func(m *message.Message) { m.SentAt = noon.Add(-25 * time.Hour) }, 0, store.InboxDropped, "sender is not paired"},
		{"a reaction", func(m *message.Message) { m.Act = message.React }, 0, store.InboxDropped, "sender is not paired"},
		{"a program", func(m *message.Message) { m.Sender.Bot = true }, 0, store.InboxDropped, "sender is a program"},
		{"who is blocked", func(m *message.Message) { m.Sender.ID = "spam-eve" }, 0, store.InboxDropped, "sender is in access.blocked"},
		{"where all are silent", func(m *message.Message) { m.Channel = "irc" }, 0, store.InboxDropped, "sender is not in access.owners or access.members"},
		{"where all are welcome", func(m *message.Message) { m.Channel = "open" }, 0, store.InboxNew, ""},
		{"no stranger", func(m *message.Message) { m.Sender.ID = "mia" }, 0, store.InboxNew, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			p := newProcess(t, s, s)
			m := knock("e1")
			c.change(&m)
			for range 2 {
				if err := p.inbox.Accept(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			if got := codes(t, s); len(got) != c.codes {
				t.Errorf("told %q, want %d codes", got, c.codes)
			}
			row, err := s.FindInbox(t.Context(), m.Channel, m.EventID)
			if err != nil || row.State != c.state || row.Note != c.note || row.State == store.InboxDropped && row.Message.Text != "" {
				t.Errorf("kept as %+v (%v), want %s, %q", row, err, c.state, c.note)
			}
			if want := c.state == store.InboxNew; (len(p.delivered) == 1) != want {
				t.Errorf("%d were handed on", len(p.delivered))
			}
		})
	}
}

// dying ends the process when the message is to be recorded: the code was given, and the channel has heard nothing.
type dying struct{ store.Inbox }

func (dying) AppendInbox(context.Context, message.Message, store.InboxState, string) (store.InboxRow, bool, error) {
	return store.InboxRow{}, false, errors.New("killed")
}

func TestKilledBetweenTheCodeAndTheMessage(t *testing.T) {
	s := open(t)
	if err := newProcess(t, s, dying{s}).inbox.Accept(t.Context(), knock("e1")); err == nil {
		t.Fatal("a message that was not recorded is acknowledged")
	}
	next := newProcess(t, s, s)
	if err := next.inbox.Accept(t.Context(), knock("e1")); err != nil {
		t.Fatal(err)
	}
	if got := codes(t, s); len(got) != 1 || !strings.Contains(got[0], pairing.ShowCode(next.desk.List()[0].Code)) {
		t.Errorf("told %q; want one code, that of the request %+v", got, next.desk.List())
	}
	if row, err := s.FindInbox(t.Context(), "pair", "e1"); err != nil || row.State != store.InboxDropped || len(next.delivered) != 0 {
		t.Errorf("kept as %+v (%v)", row, err)
	}
}

// Once let in, what was said before stays unanswered, whoever sends it again.
func TestWhatWasSaidBeforeIsNotAnswered(t *testing.T) {
	s := open(t)
	p := newProcess(t, s, s)
	if err := p.inbox.Accept(t.Context(), knock("e1")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.desk.Decide(t.Context(), p.desk.List()[0].Code, true, "web:owner"); err != nil {
		t.Fatal(err)
	}
	for _, event := range []string{"e1", "e2"} {
		if err := p.inbox.Accept(t.Context(), knock(event)); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.delivered) != 1 || p.delivered[0].Message.EventID != "e2" {
		t.Errorf("handed on: %+v", p.delivered)
	}
}

// A channel whose access is not its own follows [access].
func TestPairingForAllChannels(t *testing.T) {
	c := house()
	c.Access.Mode = config.AccessPair
	m := knock("e1")
	m.Channel = "irc"
	if got := newGate(c, time.Now).Admit(m); got.Ruling != Pairing {
		t.Errorf("ruling is %s", got.Ruling)
	}
}
