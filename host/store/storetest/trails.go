package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

func trails(t *testing.T, open Opener) {
	s := open()
	taken, left := accept(t, s, "e1"), accept(t, s, "e2")
	tn := turn("t1", taken.ID)
	other := turn("t2")
	other.Parent, other.ParentCall = "t1", "c1"
	approval := func(id, turn string, after time.Duration) store.Approval {
		return store.Approval{ID: id, Turn: turn, Tool: "shell.exec", State: store.ApprovalPending, Created: noon.Add(after), Expires: noon.Add(time.Hour)}
	}
	check(t, s.AddApproval(t.Context(), approval("zz", "t1", 1)))
	check(t, s.AddApproval(t.Context(), approval("aa", "t1", 2)))
	check(t, s.AddApproval(t.Context(), approval("bb", "t2", 1)))
	check(t, s.AddAudit(t.Context(), []store.AuditRow{
		{At: noon, Kind: store.AuditGrantUsed, Subject: "g1", Turn: "t1"}, {At: noon, Kind: store.AuditGrantUsed, Subject: "g2", Turn: "t2"},
	}))
	check(t, s.AddDecisions(t.Context(), []store.Decision{{At: noon, Kind: "route_table", Turn: store.MessageID(left.ID), Policy: "table"}}))
	check(t, s.SetInbox(t.Context(), left.ID, store.InboxDropped, "not on the list"))
	check(t, s.CommitTurn(t.Context(), store.Commit{
		Turn: tn, Steps: []store.Step{step(0, store.StepUser, `{}`)}, Replies: []message.Reply{reply("r")}, Usage: []store.Usage{{Turn: "t1", Input: 1}},
		Decisions: []store.Decision{{At: noon, Kind: "route", Policy: "p", Frame: []byte("large"), Text: "large", Answer: "pass"}},
	}))
	check(t, s.CommitTurn(t.Context(), store.Commit{Turn: other}))

	s = open()
	for _, id := range []string{"t1", store.MessageID(taken.ID)} {
		got := must[store.Trail](t)(s.Trail(t.Context(), id))
		if got.Turn.ID != "t1" || len(got.Inbox) != 1 || got.Inbox[0].ID != taken.ID || len(got.Steps) != 1 || len(got.Usage) != 1 || got.Cut {
			t.Errorf("trail of %s: %+v", id, got)
		}
		if len(got.Decisions) != 1 || got.Decisions[0].Answer != "pass" || got.Decisions[0].Frame != nil || got.Decisions[0].Text != "" {
			t.Errorf("decisions of %s: %+v", id, got.Decisions)
		}
		if len(got.Approvals) != 2 || got.Approvals[0].ID != "zz" || len(got.Audit) != 1 || got.Audit[0].Subject != "g1" {
			t.Errorf("approvals and audit of %s: %+v, %+v", id, got.Approvals, got.Audit)
		}
		if len(got.Replies) != 1 || len(got.Children) != 1 || got.Children[0].ID != "t2" {
			t.Errorf("replies and children of %s: %+v, %+v", id, got.Replies, got.Children)
		}
	}
	dropped := must[store.Trail](t)(s.Trail(t.Context(), store.MessageID(left.ID)))
	if dropped.Turn.ID != "" || len(dropped.Inbox) != 1 || dropped.Inbox[0].Note != "not on the list" || len(dropped.Decisions) != 1 {
		t.Errorf("trail of a dropped message: %+v", dropped)
	}
	for _, id := range []string{"", "t9", "message/99", "message/x"} {
		if _, err := s.Trail(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("trail of %q: %v", id, err)
		}
	}
	lastMessages(t, s, left)
}

func lastMessages(t *testing.T, s store.Store, last store.InboxRow) {
	m := last.Message
	for _, c := range []struct{ channel, conversation string }{{"", ""}, {m.Channel, ""}, {m.Channel, m.Conversation.ID}} {
		if got := must[store.InboxRow](t)(s.LastMessage(t.Context(), c.channel, c.conversation)); got.ID != last.ID {
			t.Errorf("the last message of %q: %+v", c, got)
		}
	}
	for _, c := range []struct{ channel, conversation string }{{"elsewhere", ""}, {m.Channel, "elsewhere"}} {
		if _, err := s.LastMessage(t.Context(), c.channel, c.conversation); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the last message of %q: %v", c, err)
		}
	}
}
