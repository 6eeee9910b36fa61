package plugged

import (
	"log/slog"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

func TestAct(t *testing.T) {
	for _, c := range []struct {
		name             string
		kind             channelkind.EventKind
		edits, reactions string
		want, noted      bool
		act              message.Act
	}{
		{"edit, noted", channelkind.EventEdit, "note", "", true, true, message.Edit},
		{"edit, answered like a message", channelkind.EventEdit, "answer", "", true, false, ""},
		{"edit, ignored", channelkind.EventEdit, "ignore", "", false, false, message.Edit},
		{"deletion, noted", channelkind.EventDelete, "note", "", true, true, message.Delete},
		{"deletion, which nobody can answer", channelkind.EventDelete, "answer", "", true, true, message.Delete},
		{"deletion, ignored", channelkind.EventDelete, "ignore", "note", false, false, message.Delete},
		{"reaction, noted", channelkind.EventReaction, "ignore", "note", true, true, message.React},
		{"reaction, answered", channelkind.EventReaction, "", "answer", true, false, message.React},
		{"reaction, ignored", channelkind.EventReaction, "note", "ignore", false, false, message.React},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := channelkind.Event{Kind: c.kind, Target: "m"}
			m, want := wanted(e, config.Access{Edits: c.edits, Reactions: c.reactions})
			if want != c.want || m.Noted != c.noted || m.Act != c.act {
				t.Errorf("wanted %v, %+v", want, m)
			}
		})
	}
}

// taken takes what the inbox has committed, and does nothing with it.
type taken struct{}

func (taken) Deliver(mailbox.InboxRow)                   {}
func (taken) Again(mailbox.InboxRow)                     {}
func (taken) Note(mailbox.InboxRow)                      {}
func (taken) Refused(mailbox.InboxRow, channel.Decision) {}

// TestActsGoThroughAdmission has people do things to messages in a group where Flynn answers when addressed.
func TestActsGoThroughAdmission(t *testing.T) {
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	access := config.Access{Owners: []string{"tg:ann"}, Mode: config.AccessAllowlist, Groups: "addressed", Edits: "note", Reactions: "note",
		RatePerMinute: 100, ConversationRatePerMinute: 100, UnknownRatePerMinute: 100}
	log := slog.New(slog.DiscardHandler)
	gate := channel.NewGate(channel.GateConfig{
		Config: &config.Config{Access: access}, Roles: route.NewRoles(access, route.AllProved), Now: time.Now,
	})
	inbox := channel.NewInbox(channel.InboxConfig{Store: s, Admitter: gate, Takers: taken{}, Log: log})
	group := message.Conversation{ID: "g", Kind: message.Group}
	said := message.Message{Channel: "tg", EventID: "q", Conversation: group, Sender: message.Sender{ID: "ann"}, Text: "the question", Addressed: true}
	if err := inbox.Accept(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	overheard := said
	overheard.EventID, overheard.Text, overheard.Addressed = "o", "among ourselves", false
	if err := inbox.Accept(t.Context(), overheard); err != nil {
		t.Fatal(err)
	}
	turn := turnlog.Turn{ID: "t1", Session: "tg:g:a", Agent: "a", Channel: "tg", Conversation: group, State: turnlog.TurnDone}
	reply := message.Reply{Key: "t1/0", Channel: "tg", Conversation: group, Text: "the answer"}
	if err := s.CommitTurn(t.Context(), turnlog.Commit{Turn: turn, Replies: []message.Reply{reply}}); err != nil {
		t.Fatal(err)
	}
	rows, err := s.UnsentOutbox(t.Context())
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	rows[0].State, rows[0].PlatformIDs = mailbox.OutboxSent, []string{"m1"}
	if err := s.SetOutbox(t.Context(), rows[0]); err != nil {
		t.Fatal(err)
	}

	channels := New(Config{Inbox: inbox, Store: s, Access: func() config.Access { return access }, Log: log})
	for _, c := range []struct {
		name, event, by, target string
		conversation            message.Conversation
		state                   mailbox.InboxState // "" where nothing is written down
		about                   message.About
	}{
		{"to an answer of ours", "1", "ann", "m1", group, mailbox.InboxNoted, message.About{ID: "m1", Ours: true, Text: "the answer"}},
		{"to what was said to us", "2", "ann", "q", group, mailbox.InboxNoted, message.About{ID: "q", Text: "the question"}},
		{"to what was not said to us", "3", "ann", "o", group, mailbox.InboxDropped, message.About{ID: "o"}},
		{"to anything else", "4", "ann", "x", group, mailbox.InboxDropped, message.About{ID: "x"}},
		{"by a stranger", "5", "eve", "m1", group, mailbox.InboxDropped, message.About{ID: "m1", Ours: true}},
		{"to a message of another conversation", "6", "ann", "q", message.Conversation{ID: "ann", Kind: message.DM}, mailbox.InboxNoted, message.About{ID: "q"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := channelkind.Event{Kind: channelkind.EventReaction, Target: c.target, Message: message.Message{
				Channel: "tg", EventID: c.event, Conversation: c.conversation, Sender: message.Sender{ID: c.by}, Text: "👍", Addressed: c.conversation.Kind == message.DM,
			}}
			m, ok := wanted(e, access)
			if !ok {
				t.Fatal("nobody wants to hear of it")
			}
			if err := channels.take(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			row, err := s.FindInbox(t.Context(), "tg", c.event)
			if err != nil || row.State != c.state || row.Message.About != c.about {
				t.Errorf("row %+v, %v; want %s, %+v", row, err, c.state, c.about)
			}
			if c.state == mailbox.InboxDropped && row.Message.Text != "" {
				t.Errorf("the words of who is not heard are kept: %+v", row)
			}
		})
	}
}
