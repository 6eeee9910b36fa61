package channel

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// process is what one process has of admission: an inbox whose strangers get codes.
type process struct {
	inbox     *Inbox
	pairings  *pairing.Service
	delivered []mailbox.InboxRow
}

func newProcess(t *testing.T, s *sqlite.Store, inbox mailbox.Inbox) *process {
	t.Helper()
	p := &process{}
	p.open(t, s)
	c := house()
	gate := NewGate(GateConfig{Config: c, Roles: route.NewRoles(c.Access, route.AllProved).With(p.pairings), Now: func() time.Time { return noon }})
	p.inbox = NewInbox(InboxConfig{
		Store: inbox, Admitter: gate, Strangers: p, MaxAge: 24 * time.Hour, Now: func() time.Time { return noon },
		Takers: delivers(func(r mailbox.InboxRow) { p.delivered = append(p.delivered, r) }),
	})
	return p
}

func (p *process) open(t *testing.T, s pairings.Store) {
	t.Helper()
	var err error
	if p.pairings, err = pairing.Open(t.Context(), pairing.Config{Store: s, Now: func() time.Time { return noon }}); err != nil {
		t.Fatal(err)
	}
}

// Offer implements Strangers by the service that is open.
func (p *process) Offer(ctx context.Context, s pairing.Stranger) (recorded, fresh bool, err error) {
	return p.pairings.Offer(ctx, s)
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
		state  mailbox.InboxState
		note   string
	}{
		{"in a private chat", func(*message.Message) {}, 1, mailbox.InboxDropped, "sender is not paired"},
		{"in a group", func(m *message.Message) { m.Conversation.Kind = message.Group }, 0, mailbox.InboxDropped, "sender is not paired"},
		{"not addressed", func(m *message.Message) { m.Conversation.Kind, m.Addressed = message.Group, false }, 0, mailbox.InboxDropped, "not addressed"},
		{"long ago", func(m *message.Message) { m.SentAt = noon.Add(-25 * time.Hour) }, 0, mailbox.InboxDropped, "sender is not paired"},
		{"a reaction", func(m *message.Message) { m.Act = message.React }, 0, mailbox.InboxDropped, "sender is not paired"},
		{"a program", func(m *message.Message) { m.Sender.Bot = true }, 0, mailbox.InboxDropped, "sender is a bot"},
		{"who is blocked", func(m *message.Message) { m.Sender.ID = "spam-eve" }, 0, mailbox.InboxDropped, "sender is in access.blocked"},
		{"where all are silent", func(m *message.Message) { m.Channel = "irc" }, 0, mailbox.InboxDropped, "sender is not in access.owners or access.members"},
		{"where all are welcome", func(m *message.Message) { m.Channel = "open" }, 0, mailbox.InboxNew, ""},
		{"no stranger", func(m *message.Message) { m.Sender.ID = "mia" }, 0, mailbox.InboxNew, ""},
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
			if err != nil || row.State != c.state || row.Note != c.note || row.State == mailbox.InboxDropped && row.Message.Text != "" {
				t.Errorf("kept as %+v (%v), want %s, %q", row, err, c.state, c.note)
			}
			if want := c.state == mailbox.InboxNew; (len(p.delivered) == 1) != want {
				t.Errorf("%d were handed on", len(p.delivered))
			}
		})
	}
}

// dying is a store of which the process sees nothing more: before the commit, or after it.
type dying struct {
	*sqlite.Store
	after bool
}

func (d dying) AskPairing(ctx context.Context, m message.Message, note string, p pairings.Pairing, turn string, r []message.Reply) (bool, error) {
	if d.after {
		if _, err := d.Store.AskPairing(ctx, m, note, p, turn, r); err != nil {
			return false, err
		}
	}
	return false, errors.New("killed")
}

// A process that dies around the commit of a code has told the channel nothing, so the message comes again. The stranger gets one
// code, that of the request that there is, and what he said is not answered, even if he was let in before it came again.
func TestKilledWhenACodeIsGiven(t *testing.T) {
	for name, after := range map[string]bool{"before the commit": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			p := newProcess(t, s, s)
			p.open(t, dying{s, after})
			if err := p.inbox.Accept(t.Context(), knock("e1")); err == nil {
				t.Fatal("a message that was not recorded is acknowledged")
			}
			next := newProcess(t, s, s)
			if after {
				if _, err := next.pairings.Decide(t.Context(), next.pairings.List()[0].Code, true, "web:owner"); err != nil {
					t.Fatal(err)
				}
			}
			if err := next.inbox.Accept(t.Context(), knock("e1")); err != nil {
				t.Fatal(err)
			}
			if got := codes(t, s); !strings.Contains(got[0], pairing.ShowCode(next.pairings.List()[0].Code)) || len(got) != map[bool]int{false: 1, true: 2}[after] {
				t.Errorf("told %q for the request %+v", got, next.pairings.List())
			}
			if row, err := s.FindInbox(t.Context(), "pair", "e1"); err != nil || row.State != mailbox.InboxDropped || len(next.delivered) != 0 {
				t.Errorf("kept as %+v (%v), %d handed on", row, err, len(next.delivered))
			}
		})
	}
}

// Once let in, what was said before stays unanswered, even if it is sent again.
func TestWhatWasSaidBeforeIsNotAnswered(t *testing.T) {
	s := open(t)
	p := newProcess(t, s, s)
	if err := p.inbox.Accept(t.Context(), knock("e1")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.pairings.Decide(t.Context(), p.pairings.List()[0].Code, true, "web:owner"); err != nil {
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
	if got := newGate(c, time.Now).Admit(m); got.Decision != Pairing {
		t.Errorf("decision is %s", got.Decision)
	}
}
