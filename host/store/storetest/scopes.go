package storetest

import (
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

func scopes(t *testing.T, open Opener) {
	s := open()
	first := must[turnlog.Scope](t)(s.Scope(t.Context(), "irc:ann"))
	equal(t, "a new scope", first, turnlog.Scope{Key: "irc:ann", Epoch: 1})
	p := turnlog.Scope{Key: "irc:ann", Epoch: 2, Began: noon, Why: turnlog.BeganIdle, Agent: "coder", Tier: "fast"}
	check(t, s.SetScope(t.Context(), p))
	s = open()
	equal(t, "scope", must[turnlog.Scope](t)(s.Scope(t.Context(), "irc:ann")), p)
	equal(t, "another", must[turnlog.Scope](t)(s.Scope(t.Context(), "irc:bob")), turnlog.Scope{Key: "irc:bob", Epoch: 1})
	p.Agent, p.Tier, p.Epoch = "", "", 3
	check(t, s.SetScope(t.Context(), p))
	equal(t, "scope", must[turnlog.Scope](t)(s.Scope(t.Context(), "irc:ann")), p)
}

func settledOnce(t *testing.T, open Opener) {
	s := open()
	row, _, err := s.AppendInbox(t.Context(), msg("e1"), mailbox.InboxNew, "")
	check(t, err)
	order := turnlog.Settlement{
		Inbox: row.ID, Note: "command new", Scope: &turnlog.Scope{Key: "irc:ann", Epoch: 2, Began: noon, Why: turnlog.BeganAsked},
		Turn: "command-1", Replies: []message.Reply{reply("k1")},
	}
	check(t, s.Settle(t.Context(), order))
	s = open()
	again := order
	again.Scope, again.Replies = &turnlog.Scope{Key: "irc:ann", Epoch: 3}, []message.Reply{reply("k2")}
	wantErr(t, s.Settle(t.Context(), again), store.ErrConflict)
	equal(t, "scope", must[turnlog.Scope](t)(s.Scope(t.Context(), "irc:ann")), *order.Scope)
	if rows := must[[]mailbox.OutboxRow](t)(s.UnsentOutbox(t.Context())); len(rows) != 1 || rows[0].Reply.Key != "k1" || rows[0].Turn != "command-1" {
		t.Fatalf("outbox holds %+v, want k1 alone", rows)
	}
	if rows := must[[]mailbox.InboxRow](t)(s.PendingInbox(t.Context())); len(rows) != 0 {
		t.Fatalf("%d rows wait, want none", len(rows))
	}
	second, _, err := s.AppendInbox(t.Context(), msg("e2"), mailbox.InboxNew, "")
	check(t, err)
	clash := turnlog.Settlement{Inbox: second.ID, Scope: &turnlog.Scope{Key: "irc:ann", Epoch: 9}, Replies: []message.Reply{reply("k1")}}
	if err := s.Settle(t.Context(), clash); err == nil {
		t.Fatal("a reply with a key that is taken was accepted")
	}
	equal(t, "scope after a failure", must[turnlog.Scope](t)(s.Scope(t.Context(), "irc:ann")), *order.Scope)
}

func halts(t *testing.T, open Opener) {
	s := open()
	equal(t, "switch", must[turnlog.Halt](t)(s.Halt(t.Context())), turnlog.Halt{})
	for _, h := range []turnlog.Halt{{On: true, Reason: "it deletes mail", By: "web:owner", Since: noon}, {By: "irc:ann", Since: noon}} {
		check(t, s.SetHalt(t.Context(), h))
		s = open()
		equal(t, "switch", must[turnlog.Halt](t)(s.Halt(t.Context())), h)
	}
}
