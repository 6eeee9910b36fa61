package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// partsAreKept goes through the parts of a long reply, with a restart after each.
func partsAreKept(t *testing.T, open Opener) {
	s := open()
	tn := turn("t1")
	tn.State = turnlog.TurnDone
	r := reply("k1")
	r.Attachments = []message.Attachment{{Digest: "d", Name: "a.txt", Type: "text/plain", Size: 3}}
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: tn, Replies: []message.Reply{r}}))
	row := must[[]mailbox.OutboxRow](t)(s.UnsentOutbox(t.Context()))[0]
	if len(row.Parts) != 0 || row.Part != 0 {
		t.Fatalf("a fresh row has parts: %+v", row)
	}
	row.Parts = []string{"one", "two", ""}
	for part := range 3 {
		row.Part, row.Attempts = part, part
		check(t, s.SetOutbox(t.Context(), row))
		s = open()
		rows := must[[]mailbox.OutboxRow](t)(s.UnsentOutbox(t.Context()))
		if len(rows) != 1 {
			t.Fatalf("%d rows are unsent, want 1", len(rows))
		}
		row.PlatformIDs = rows[0].PlatformIDs
		equal(t, "row", rows[0], row)
	}
}

// draftsAreKept until nothing can complete them any more.
func draftsAreKept(t *testing.T, open Opener) {
	s := open()
	drafts := func() []mailbox.Draft { return must[[]mailbox.Draft](t)(s.OpenDrafts(t.Context())) }
	if d := drafts(); len(d) > 0 {
		t.Fatalf("an empty store has drafts: %+v", d)
	}
	pending, waiting, delivered := accept(t, s, "1"), accept(t, s, "2"), accept(t, s, "3")
	draft := func(r mailbox.InboxRow, id string) mailbox.Draft {
		return mailbox.Draft{Inbox: r.ID, Key: "key of " + r.Message.EventID, MessageID: id, SentAt: noon}
	}
	for _, row := range []mailbox.InboxRow{waiting, delivered} {
		tn, r := turn("t"+row.Message.EventID, row.ID), reply("k"+row.Message.EventID)
		tn.State, r.Answers = turnlog.TurnDone, row.ID
		check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: tn, InboxState: mailbox.InboxDone, Replies: []message.Reply{r}}))
	}
	for _, row := range must[[]mailbox.OutboxRow](t)(s.UnsentOutbox(t.Context())) {
		if row.Reply.Answers == delivered.ID {
			row.State = mailbox.OutboxSent
			check(t, s.SetOutbox(t.Context(), row))
		}
	}
	for _, d := range []mailbox.Draft{draft(pending, ""), draft(waiting, "m2"), draft(delivered, "m3"), draft(pending, "m1")} {
		check(t, s.PutDraft(t.Context(), d))
	}
	s = open()
	equal(t, "drafts", drafts(), []mailbox.Draft{draft(pending, "m1"), draft(waiting, "m2")})
	later := draft(pending, "m9")
	later.Key, later.SentAt = "another", noon.Add(time.Minute)
	check(t, s.PutDraft(t.Context(), later))
	check(t, s.DropDraft(t.Context(), waiting.ID))
	check(t, s.DropDraft(t.Context(), waiting.ID))
	s = open()
	equal(t, "drafts", drafts(), []mailbox.Draft{later})
}

// notesWait until a turn takes them.
func notesWait(t *testing.T, open Opener) {
	s := open()
	for _, id := range []string{"1", "2", "3"} {
		m := msg(id)
		m.Act, m.About, m.Noted = message.Edit, message.About{ID: "0", Ours: true, Text: "before"}, true
		_, fresh, err := s.AppendInbox(t.Context(), m, mailbox.InboxNoted, "")
		if check(t, err); !fresh {
			t.Fatal("the note is not fresh")
		}
	}
	answered := accept(t, s, "4")
	rows := must[[]mailbox.InboxRow](t)(s.NotedInbox(t.Context()))
	if len(rows) != 3 || rows[0].Message.About.Text != "before" || !rows[0].Message.Noted {
		t.Fatalf("notes are %+v", rows)
	}
	if pending := must[[]mailbox.InboxRow](t)(s.PendingInbox(t.Context())); len(pending) != 1 {
		t.Fatalf("%d rows are to be answered, want 1", len(pending))
	}
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: turn("t1", answered.ID), Told: []int64{rows[0].ID, rows[1].ID, answered.ID}}))
	s = open()
	left := must[[]mailbox.InboxRow](t)(s.NotedInbox(t.Context()))
	if len(left) != 1 || left[0].ID != rows[2].ID {
		t.Fatalf("notes are %+v", left)
	}
	if pending := must[[]mailbox.InboxRow](t)(s.PendingInbox(t.Context())); len(pending) != 1 {
		t.Fatal("a message that is to be answered was taken for a note")
	}
}

// earlierIsFound looks messages up by what their channel calls them.
func earlierIsFound(t *testing.T, open Opener) {
	s := open()
	row := accept(t, s, "1")
	tn := turn("t1", row.ID)
	tn.State = turnlog.TurnDone
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: tn, InboxState: mailbox.InboxDone, Replies: []message.Reply{reply("k1"), reply("k2")}}))
	for i, r := range must[[]mailbox.OutboxRow](t)(s.UnsentOutbox(t.Context())) {
		r.State, r.PlatformIDs = mailbox.OutboxSent, []string{"a" + r.Reply.Key, "b" + r.Reply.Key}
		if i == 1 {
			r.State = mailbox.OutboxSending
		}
		check(t, s.SetOutbox(t.Context(), r))
	}
	s = open()
	found := must[mailbox.InboxRow](t)(s.FindInbox(t.Context(), row.Message.Channel, "1"))
	equal(t, "id", found.ID, row.ID)
	_, err := s.FindInbox(t.Context(), "other", "1")
	wantErr(t, err, store.ErrNotFound)
	sent := must[mailbox.OutboxRow](t)(s.FindSent(t.Context(), tn.Channel, tn.Conversation.ID, "bk1"))
	equal(t, "key", sent.Reply.Key, "k1")
	for _, c := range [][3]string{
		{"other", tn.Conversation.ID, "bk1"}, {tn.Channel, "other", "bk1"}, {tn.Channel, tn.Conversation.ID, "bk2"}, {tn.Channel, tn.Conversation.ID, "b"},
	} {
		_, err := s.FindSent(t.Context(), c[0], c[1], c[2])
		wantErr(t, err, store.ErrNotFound)
	}
}

func privateChatsAreFound(t *testing.T, open Opener) {
	s := open()
	equal(t, "senders", len(must[[]message.SenderKey](t)(s.Senders(t.Context()))), 0)
	private := message.Conversation{ID: "d1", Kind: message.DM}
	for i, c := range []struct {
		where   message.Conversation
		channel string
	}{{message.Conversation{ID: "d0", Kind: message.DM}, "irc"}, {private, "irc"}, {message.Conversation{ID: "x", Kind: message.DM}, message.ScheduleChannel}, {message.Conversation{ID: "#g", Kind: message.Group}, "irc"}} {
		tn := turn(fmt.Sprint("t", i))
		tn.Conversation, tn.Channel = c.where, c.channel
		check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: tn}))
	}
	equal(t, "the last private chat", must[message.Conversation](t)(s.LastPrivate(t.Context(), "irc", "irc:ann")), private)
	if _, err := s.LastPrivate(t.Context(), "irc", "irc:bob"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of a stranger: %v", err)
	}
	for i, sender := range []message.SenderKey{"irc:zoe", "irc:bob", "irc:bob", "tg:bob"} {
		tn := turn(fmt.Sprint("s", i))
		tn.Sender = sender
		check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: tn}))
	}
	equal(t, "senders", must[[]message.SenderKey](t)(s.Senders(t.Context())), []message.SenderKey{"irc:ann", "irc:bob", "irc:zoe", "tg:bob"})
	child := turn("z")
	child.Session, child.Sender, child.Parent, child.ParentCall = "of a child", "irc:eve", "s3", "c"
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: child}))
	equal(t, "holders", must[[]turnlog.Holder](t)(s.Holders(t.Context())), []turnlog.Holder{{Session: turn("").Session, Sender: "irc:ann"}})
}
