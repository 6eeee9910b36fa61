package storetest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

func deletion(key message.SessionKey) turnlog.Deletion {
	return turnlog.Deletion{Key: key, By: "irc:owner", At: noon.Add(time.Minute)}
}

// lived commits a session with an ended turn that has everything a session can have, and one turn that it delegated. All their names
// begin with name.
func lived(t *testing.T, s store.Store, name string, key message.SessionKey, digest string) (said mailbox.InboxRow) {
	t.Helper()
	said = accept(t, s, name)
	tn := turn(name, said.ID)
	tn.State, tn.Session = turnlog.TurnDone, key
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{
		Turn: tn, InboxState: mailbox.InboxDone, Extract: true, Replies: []message.Reply{reply(name + "/sent"), reply(name + "/waits")},
		Steps:   []turnlog.Step{{Turn: name, Kind: turnlog.StepUser, Data: []byte(`{"digest":"` + digest + `"}`), At: noon}},
		Summary: &turnlog.Summary{ID: name, Session: key, Through: name, Turns: 1, Text: "secret", At: noon},
		Results: []turnlog.KeptResult{{Session: key, ID: name, Tool: "web.fetch", Text: "secret", At: noon}},
	}))
	child := turn(name + "-child")
	child.State, child.Session, child.Parent, child.ParentCall = turnlog.TurnDone, key.Child(name), name, "call"
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{
		Turn: child, Steps: []turnlog.Step{{Turn: child.ID, Kind: turnlog.StepUser, Data: []byte(`{}`), At: noon}},
		Results: []turnlog.KeptResult{{Session: child.Session, ID: name, Tool: "web.fetch", Text: "secret", At: noon}},
	}))
	for _, row := range must[[]mailbox.OutboxRow](t)(s.UnsentOutbox(t.Context())) {
		if row.Reply.Key == name+"/sent" {
			row.State = mailbox.OutboxSent
			check(t, s.SetOutbox(t.Context(), row))
		}
	}
	check(t, s.WriteNote(t.Context(), memory.Note{Agent: "helper", Key: name, Text: "secret", Turn: name, Updated: noon}, 0))
	for _, scope := range []consent.GrantScope{consent.GrantSession, consent.GrantStanding} {
		a, g := pendingApproval(name+"-"+string(scope)), grant(name+"-"+string(scope))
		a.Turn, g.Session, g.Scope = name, key, scope
		check(t, s.AddApproval(t.Context(), a))
		check(t, s.GrantApproval(t.Context(), g, auditRow(consent.AuditGranted, g.ID, noon)))
	}
	check(t, s.AddUsage(t.Context(), []usage.Row{{At: noon, Day: "d", Turn: name, Session: key, Agent: "helper"}}))
	return said
}

func deletions(t *testing.T, open Opener) {
	s, ctx := open(), t.Context()
	digest := strings.Repeat("0a", 32)
	said := lived(t, s, "mine", "irc:ann:helper", digest)
	edit := msg("edit")
	edit.Noted = true
	told, _, err := s.AppendInbox(ctx, edit, mailbox.InboxNoted, "")
	check(t, err)
	check(t, s.Settle(ctx, turnlog.Settlement{Inbox: accept(t, s, "order").ID, Told: []int64{told.ID}}))
	edit.EventID = "later"
	_, _, err = s.AppendInbox(ctx, edit, mailbox.InboxNoted, "")
	check(t, err)
	lived(t, s, "other", "irc:ann:helper/x:helper", strings.Repeat("0b", 32)) // its key begins with the other's
	check(t, s.DeleteSession(ctx, deletion("irc:ann:helper")))
	s = open()

	for _, id := range []string{"mine", "mine-child"} {
		if steps := must[[]turnlog.Step](t)(s.Steps(ctx, id)); len(steps) != 0 {
			t.Errorf("%d steps of %s are left", len(steps), id)
		}
	}
	_, err = s.ChildTurn(ctx, "mine-child")
	wantErr(t, err, store.ErrNotFound)
	_, err = s.LatestSummary(ctx, "irc:ann:helper")
	wantErr(t, err, store.ErrNotFound)
	for _, key := range []message.SessionKey{"irc:ann:helper", "irc:ann:helper/mine"} {
		_, err = s.KeptResult(ctx, key, "mine")
		wantErr(t, err, store.ErrNotFound)
	}
	_, err = s.Approval(ctx, "mine-session")
	wantErr(t, err, store.ErrNotFound)
	_, err = s.Grant(ctx, "mine-session")
	wantErr(t, err, store.ErrNotFound)
	row := must[mailbox.InboxRow](t)(s.FindInbox(ctx, "irc", said.Message.EventID))
	if row.State != mailbox.InboxDone || row.Message.Text != "" || row.Message.Sender.Name != "" || row.Message.Conversation != said.Message.Conversation {
		t.Errorf("the inbox has %+v", row)
	}
	if _, fresh, err := s.AppendInbox(ctx, said.Message, mailbox.InboxNew, ""); err != nil || fresh {
		t.Errorf("its message is accepted a second time (%v)", err)
	}
	for event, text := range map[string]string{"edit": "", "later": edit.Text} {
		equal(t, event, must[mailbox.InboxRow](t)(s.FindInbox(ctx, "irc", event)).Message.Text, text)
	}
	if notes := must[[]memory.Note](t)(s.SearchNotes(ctx, memory.NoteQuery{})); len(notes) != 1 || notes[0].Key != "other" {
		t.Errorf("notes left: %+v", notes)
	}
	if waiting := must[[]memory.Extraction](t)(s.PendingExtractions(ctx, 10)); len(waiting) != 1 || waiting[0].Turn.ID != "other" {
		t.Errorf("extractions left: %+v", waiting)
	}

	// Rows that others answer for stay.
	must[consent.Grant](t)(s.Grant(ctx, "mine-standing"))
	if rows := must[[]usage.Row](t)(s.ListUsage(ctx, usage.Filter{})); len(rows) != 2 {
		t.Errorf("%d rows of usage are left, want 2", len(rows))
	}
	gone := must[[]consent.AuditRow](t)(s.ListAudit(ctx, consent.AuditFilter{Kind: consent.AuditDeleted}))
	if len(gone) != 1 || gone[0].Subject != "irc:ann:helper" || gone[0].Actor != "irc:owner" || gone[0].Detail != "turns: 2" {
		t.Errorf("audit: %+v", gone)
	}
	if ended := must[[]consent.AuditRow](t)(s.ListAudit(ctx, consent.AuditFilter{Kind: consent.AuditGrantEnded})); len(ended) != 1 || ended[0].Subject != "mine-session" {
		t.Errorf("audit: %+v", ended)
	}

	// Files outside of the store, and those on their way, are still to be removed.
	left := func(kind turnlog.LeftoverKind) []turnlog.Leftover {
		return must[[]turnlog.Leftover](t)(s.ListLeftovers(ctx, kind))
	}
	equal(t, "files", left(turnlog.LeftMedia), []turnlog.Leftover{{Kind: turnlog.LeftMedia, Name: digest}})
	equal(t, "sandboxes", left(turnlog.LeftContainers), []turnlog.Leftover{{Kind: turnlog.LeftContainers, Name: "irc:ann:helper"}})
	check(t, s.DropLeftover(ctx, left(turnlog.LeftContainers)[0]))
	equal(t, "sandboxes", len(left(turnlog.LeftContainers)), 0)
	if must[bool](t)(s.NamedInSteps(ctx, digest)) || !must[bool](t)(s.NamedInSteps(ctx, strings.Repeat("0b", 32))) {
		t.Error("what is named in steps is not known")
	}
	replies := must[[]mailbox.OutboxRow](t)(s.Replies(ctx, "mine"))
	if len(replies) != 1 || replies[0].Reply.Key != "mine/waits" {
		t.Fatalf("replies left: %+v", replies)
	}
	replies[0].State = mailbox.OutboxSent
	check(t, s.SetOutbox(ctx, replies[0]))
	must[map[string]int](t)(s.Prune(ctx, store.Retention{}))
	equal(t, "replies", len(must[[]mailbox.OutboxRow](t)(s.Replies(ctx, "mine"))), 0)
	equal(t, "replies of the other", len(must[[]mailbox.OutboxRow](t)(s.Replies(ctx, "other"))), 2)
	equal(t, "replies on their way", len(left(turnlog.LeftReplies)), 0)
}

// deletionsWait checks that a deletion waits for turns and delegated turns, and keeps the sandboxes until their last session.
func deletionsWait(t *testing.T, open Opener) {
	s, ctx := open(), t.Context()
	lived(t, s, "one", "irc:ann:helper", "")
	lived(t, s, "two", "irc:ann:helper#2", "")
	child := turn("busy")
	child.Session, child.Parent, child.ParentCall, child.Background = "irc:ann:helper/busy", "one-child", "call", true
	check(t, s.CommitTurn(ctx, turnlog.Commit{Turn: child}))
	wantErr(t, s.DeleteSession(ctx, deletion("irc:ann:helper")), store.ErrConflict)
	child.State = turnlog.TurnStopped
	check(t, s.CommitTurn(ctx, turnlog.Commit{Turn: child}))
	check(t, s.DeleteSession(ctx, deletion("irc:ann:helper")))
	equal(t, "sandboxes", len(must[[]turnlog.Leftover](t)(s.ListLeftovers(ctx, turnlog.LeftContainers))), 0)
	check(t, s.DeleteSession(ctx, deletion("irc:ann:helper#2")))
	equal(t, "sandboxes", len(must[[]turnlog.Leftover](t)(s.ListLeftovers(ctx, turnlog.LeftContainers))), 1)
}

func orderedDeletion(t *testing.T, open Opener) {
	s, ctx := open(), t.Context()
	for _, key := range []message.SessionKey{"irc:ann:helper", "irc:ann:coder#2", "irc:ann:x:helper", "irc:anna:helper"} {
		lived(t, s, "in "+string(key), key, "")
	}
	keys := func(scope string) (out []message.SessionKey) {
		for _, v := range must[[]turnlog.Session](t)(s.SessionsIn(ctx, scope)) {
			out = append(out, v.Key)
		}
		return out
	}
	order := turnlog.Settlement{Inbox: accept(t, s, "order").ID, Turn: "command", Replies: []message.Reply{reply("k")}}
	for _, key := range keys("irc:ann") {
		order.Deletions = append(order.Deletions, deletion(key))
	}
	check(t, s.Settle(ctx, order))
	wantErr(t, s.Settle(ctx, order), store.ErrConflict)
	if left := slices.Concat(keys("irc:ann"), keys("irc:ann:x"), keys("irc:anna")); !slices.Equal(left, []message.SessionKey{"irc:ann:x:helper", "irc:anna:helper"}) {
		t.Errorf("sessions left: %q", left)
	}
	equal(t, "replies", len(must[[]mailbox.OutboxRow](t)(s.Replies(ctx, "command"))), 1)
}

// ordered accepts a command in a conversation, settles it with a reply, and returns its row.
func ordered(t *testing.T, s store.Store, event string, at time.Time, to string) mailbox.InboxRow {
	t.Helper()
	m := msg(event)
	m.Text, m.Conversation.ID, m.ReceivedAt, m.Sender.Name = "/agent secretword", to, at, "secret name"
	row, _, err := s.AppendInbox(t.Context(), m, mailbox.InboxNew, "")
	check(t, err)
	answer := reply(event)
	answer.Conversation.ID = to
	check(t, s.Settle(t.Context(), turnlog.Settlement{Inbox: row.ID, Turn: mailbox.CommandTurn(row.ID), Replies: []message.Reply{answer}}))
	for _, out := range must[[]mailbox.OutboxRow](t)(s.UnsentOutbox(t.Context())) {
		if out.Reply.Key == event {
			out.State = mailbox.OutboxSent
			check(t, s.SetOutbox(t.Context(), out))
		}
	}
	return row
}

// left returns how much of a command is kept: its text, its sender's name, its replies.
func left(t *testing.T, s store.Store, row mailbox.InboxRow) (said bool, replies int) {
	t.Helper()
	kept, err := s.FindInbox(t.Context(), row.Message.Channel, row.Message.EventID)
	check(t, err)
	out, err := s.Replies(t.Context(), mailbox.CommandTurn(row.ID))
	check(t, err)
	return kept.Message.Text != "" || kept.Message.Sender.Name != "", len(out)
}

// commandsGo checks that commands and the replies to them are deleted with the sessions of their conversation, and when they expire.
func commandsGo(t *testing.T, open Opener) {
	s, ctx := open(), t.Context()
	where := msg("x").Conversation.ID
	before := ordered(t, s, "before", noon, where)
	lived(t, s, "one", "irc:ann:helper", strings.Repeat("0a", 32))
	lived(t, s, "two", "irc:ann:coder", strings.Repeat("0b", 32))
	after := ordered(t, s, "after", noon, where)
	elsewhere := ordered(t, s, "elsewhere", noon.Add(time.Hour), "#elsewhere")
	rows := []mailbox.InboxRow{before, after, elsewhere}
	expect := func(when string, want ...bool) {
		t.Helper()
		s = open()
		for i, row := range rows {
			if said, replies := left(t, s, row); said != want[i] || (replies > 0) != want[i] {
				t.Errorf("%s: of %s there is text: %v, replies: %d", when, row.Message.EventID, said, replies)
			}
		}
	}
	check(t, s.DeleteSession(ctx, deletion("irc:ann:helper")))
	expect("another session goes on", true, true, true)
	check(t, s.DeleteSession(ctx, deletion("irc:ann:coder")))
	expect("the last session of the conversation is gone", false, false, true)

	said := lived(t, s, "three", "irc:ann:poet", strings.Repeat("0c", 32))
	waits := msg("waits")
	waits.ReceivedAt = noon.Add(2 * time.Hour)
	_, _, err := s.AppendInbox(ctx, waits, mailbox.InboxNew, "")
	check(t, err)
	late := ordered(t, s, "late", noon, where) // behind one that waits
	rows = append(rows, late)
	_, err = s.Prune(ctx, store.Retention{Said: noon.Add(time.Hour)})
	check(t, err)
	expect("its time has not come", false, false, true, true)
	gone, err := s.Prune(ctx, store.Retention{Said: noon.Add(3 * time.Hour)})
	check(t, err)
	expect("its time has come", false, false, false, true)
	if gone["inbox"] == 0 {
		t.Errorf("gone: %v", gone)
	}
	if row, err := s.FindInbox(ctx, waits.Channel, waits.EventID); err != nil || row.Message.Text != waits.Text {
		t.Errorf("what waits is %+v, %v", row, err)
	}
	if row, err := s.FindInbox(ctx, said.Message.Channel, said.Message.EventID); err != nil || row.Message.Text == "" {
		t.Errorf("what a turn has answered is %+v, %v: it goes with its session", row, err)
	}
}
