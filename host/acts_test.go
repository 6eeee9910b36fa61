package host

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/store"
)

func TestAct(t *testing.T) {
	for _, c := range []struct {
		name             string
		kind             plugin.EventKind
		edits, reactions string
		want, noted      bool
		act              message.Act
	}{
		{"edit, noted", plugin.EventEdit, "note", "", true, true, message.Edit},
		{"edit, answered like a message", plugin.EventEdit, "answer", "", true, false, ""},
		{"edit, ignored", plugin.EventEdit, "ignore", "", false, false, message.Edit},
		{"deletion, noted", plugin.EventDelete, "note", "", true, true, message.Delete},
		{"deletion, which nobody can answer", plugin.EventDelete, "answer", "", true, true, message.Delete},
		{"deletion, ignored", plugin.EventDelete, "ignore", "note", false, false, message.Delete},
		{"reaction, noted", plugin.EventReaction, "ignore", "note", true, true, message.React},
		{"reaction, answered", plugin.EventReaction, "", "answer", true, false, message.React},
		{"reaction, ignored", plugin.EventReaction, "note", "ignore", false, false, message.React},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := plugin.Event{Kind: c.kind, Target: "m"}
			want := act(&e, config.Access{Edits: c.edits, Reactions: c.reactions})
			if want != c.want || e.Noted != c.noted || e.Act != c.act {
				t.Errorf("want %v, %+v", want, e)
			}
		})
	}
}

// TestActsGoThroughAdmission has people do things to messages in a group where Flynn answers when addressed.
func TestActsGoThroughAdmission(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "flynn.toml")
	text := "[store]\ndir = \"" + dir + "/s\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n[routing]\ndefault_agent = \"a\"\n[agent_configs.a]\n" +
		"[access]\nowners = [\"tg:ann\"]\n[channels.tg]\nplugin = \"telegram\"\ntrust_senders = true\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := New(t.Context(), Config{Path: path, Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	group := message.Conversation{ID: "g", Kind: message.Group}
	said := message.Message{Channel: "tg", EventID: "q", Conversation: group, Sender: message.Sender{ID: "ann"}, Text: "the question", Addressed: true}
	if err := h.inbox.Accept(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	overheard := said
	overheard.EventID, overheard.Text, overheard.Addressed = "o", "among ourselves", false
	if err := h.inbox.Accept(t.Context(), overheard); err != nil {
		t.Fatal(err)
	}
	turn := store.Turn{ID: "t1", Session: "tg:g:a", Agent: "a", Channel: "tg", Conversation: group, State: store.TurnDone}
	reply := message.Reply{Key: "t1/0", Channel: "tg", Conversation: group, Text: "the answer"}
	if err := h.store.CommitTurn(t.Context(), store.Commit{Turn: turn, Replies: []message.Reply{reply}}); err != nil {
		t.Fatal(err)
	}
	rows, err := h.store.UnsentOutbox(t.Context())
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	rows[0].State, rows[0].PlatformIDs = store.OutboxSent, []string{"m1"}
	if err := h.store.SetOutbox(t.Context(), rows[0]); err != nil {
		t.Fatal(err)
	}

	a := &adapter{host: h, name: "tg"}
	for _, c := range []struct {
		name, event, by, target string
		conversation            message.Conversation
		state                   store.InboxState // "" where nothing is written down
		about                   message.About
	}{
		{"to an answer of ours", "1", "ann", "m1", group, store.InboxNoted, message.About{ID: "m1", Ours: true, Text: "the answer"}},
		{"to what was said to us", "2", "ann", "q", group, store.InboxNoted, message.About{ID: "q", Text: "the question"}},
		{"to what was not said to us", "3", "ann", "o", group, store.InboxDropped, message.About{ID: "o"}},
		{"to anything else", "4", "ann", "x", group, store.InboxDropped, message.About{ID: "x"}},
		{"by a stranger", "5", "eve", "m1", group, store.InboxDropped, message.About{ID: "m1", Ours: true}},
		{"to a message of another conversation", "6", "ann", "q", message.Conversation{ID: "ann", Kind: message.DM}, store.InboxNoted, message.About{ID: "q"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := plugin.Event{Kind: plugin.EventReaction, Target: c.target, Message: message.Message{
				EventID: c.event, Conversation: c.conversation, Sender: message.Sender{ID: c.by}, Text: "👍", Addressed: c.conversation.Kind == message.DM,
			}}
			if !a.answers(&e) {
				t.Fatal("nobody wants to hear of it")
			}
			e.Message.Channel = "tg"
			if err := a.accept(t.Context(), e.Message); err != nil {
				t.Fatal(err)
			}
			row, err := h.store.FindInbox(t.Context(), "tg", c.event)
			if err != nil || row.State != c.state || row.Message.About != c.about {
				t.Errorf("row %+v, %v; want %s, %+v", row, err, c.state, c.about)
			}
			if c.state == store.InboxDropped && row.Message.Text != "" {
				t.Errorf("the words of who is not heard are kept: %+v", row)
			}
		})
	}
}
