package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

func trails(t *testing.T, open Opener) {
	s := open()
	taken, left := accept(t, s, "e1"), accept(t, s, "e2")
	tn := turn("t1", taken.ID)
	other := turn("t2")
	other.Parent, other.ParentCall = "t1", "c1"
	approval := func(id, turn string, after time.Duration) consent.Approval {
		return consent.Approval{ID: id, Turn: turn, Tool: "shell.exec", State: consent.ApprovalPending, Created: noon.Add(after), Expires: noon.Add(time.Hour)}
	}
	check(t, s.AddApproval(t.Context(), approval("zz", "t1", 1)))
	check(t, s.AddApproval(t.Context(), approval("aa", "t1", 2)))
	check(t, s.AddApproval(t.Context(), approval("bb", "t2", 1)))
	check(t, s.AddAudit(t.Context(), []consent.AuditRow{
		{At: noon, Kind: consent.AuditGrantUsed, Subject: "g1", Turn: "t1"}, {At: noon, Kind: consent.AuditGrantUsed, Subject: "g2", Turn: "t2"},
	}))
	check(t, s.AddDecisions(t.Context(), []journal.Decision{{At: noon, Kind: "route_table", Turn: mailbox.MessageID(left.ID), Policy: "table"}}))
	check(t, s.SetInbox(t.Context(), left.ID, mailbox.InboxDropped, "not on the list"))
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{
		Turn: tn, Steps: []turnlog.Step{step(0, turnlog.StepUser, `{}`)}, Replies: []message.Reply{reply("r")}, Usage: []usage.Row{{Turn: "t1", Input: 1}},
		Decisions: []journal.Decision{{At: noon, Kind: "route", Policy: "p", Frame: []byte("large"), Text: "large", Answer: "pass"}},
	}))
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: other}))

	s = open()
	for _, id := range []string{"t1", mailbox.MessageID(taken.ID)} {
		got := must[turnlog.Trail](t)(s.Trail(t.Context(), id))
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
	dropped := must[turnlog.Trail](t)(s.Trail(t.Context(), mailbox.MessageID(left.ID)))
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

func lastMessages(t *testing.T, s store.Store, last mailbox.InboxRow) {
	m := last.Message
	for _, c := range []struct{ channel, conversation string }{{"", ""}, {m.Channel, ""}, {m.Channel, m.Conversation.ID}} {
		if got := must[mailbox.InboxRow](t)(s.LastMessage(t.Context(), c.channel, c.conversation)); got.ID != last.ID {
			t.Errorf("the last message of %q: %+v", c, got)
		}
	}
	for _, c := range []struct{ channel, conversation string }{{"elsewhere", ""}, {m.Channel, "elsewhere"}} {
		if _, err := s.LastMessage(t.Context(), c.channel, c.conversation); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the last message of %q: %v", c, err)
		}
	}
}

// turnList lists turns beside messages that no turn took.
func turnList(t *testing.T, open Opener) {
	s := open()
	taken, dropped, stale := accept(t, s, "e1"), accept(t, s, "e2"), accept(t, s, "e3")
	check(t, s.SetInbox(t.Context(), dropped.ID, mailbox.InboxDropped, "not on the list"))
	check(t, s.SetInbox(t.Context(), stale.ID, mailbox.InboxStale, "too old"))
	one, two := turn("t1", taken.ID), turn("t2")
	two.Agent, two.State, two.Started, two.Sender = "other", turnlog.TurnFailed, noon.Add(time.Hour), "irc:x' OR '1'='1"
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: one}))
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: two}))

	s = open()
	list := func(f turnlog.TurnFilter, before string) (ids string) {
		for _, b := range must[[]turnlog.Begun](t)(s.LatestTurns(t.Context(), f, before)) {
			ids += b.ID + " "
		}
		return ids
	}
	for _, c := range []struct {
		name   string
		filter turnlog.TurnFilter
		before string
		want   string
	}{
		{"all", turnlog.TurnFilter{Limit: 10}, "", "t2 t1 "},
		{"before one", turnlog.TurnFilter{Limit: 10}, "t2", "t1 "},
		{"one", turnlog.TurnFilter{Limit: 1}, "", "t2 "},
		{"of an agent", turnlog.TurnFilter{Limit: 10, Agent: "other"}, "", "t2 "},
		{"of a person", turnlog.TurnFilter{Limit: 10, Person: two.Sender}, "", "t2 "},
		{"of nobody", turnlog.TurnFilter{Limit: 10, Person: "x' OR '1'='1"}, "", ""},
		{"failed", turnlog.TurnFilter{Limit: 10, State: "failed"}, "", "t2 "},
		{"since", turnlog.TurnFilter{Limit: 10, Since: noon.Add(time.Minute)}, "", "t2 "},
		{"of another channel", turnlog.TurnFilter{Limit: 10, Channel: "nowhere"}, "", ""},
	} {
		if got := list(c.filter, c.before); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if first := must[[]turnlog.Begun](t)(s.LatestTurns(t.Context(), turnlog.TurnFilter{Limit: 1}, "t2"))[0]; first.Text != taken.Message.Text {
		t.Errorf("the text of a turn is %q, want %q", first.Text, taken.Message.Text)
	}
	left := func(f turnlog.TurnFilter, before int64) (n int) {
		return len(must[[]mailbox.InboxRow](t)(s.LatestUnanswered(t.Context(), f, before)))
	}
	sender := dropped.Message.SenderKey()
	for name, got := range map[string]bool{
		"all":               left(turnlog.TurnFilter{Limit: 10}, 0) == 2,
		"before one":        left(turnlog.TurnFilter{Limit: 10}, stale.ID) == 1,
		"dropped":           left(turnlog.TurnFilter{Limit: 10, State: "dropped"}, 0) == 1,
		"a state of a turn": left(turnlog.TurnFilter{Limit: 10, State: "done"}, 0) == 0,
		"of an agent":       left(turnlog.TurnFilter{Limit: 10, Agent: "helper"}, 0) == 0,
		"of the sender":     left(turnlog.TurnFilter{Limit: 10, Person: sender}, 0) == 2,
		"of another":        left(turnlog.TurnFilter{Limit: 10, Person: sender + "x"}, 0) == 0,
		"since then":        left(turnlog.TurnFilter{Limit: 10, Since: dropped.Message.ReceivedAt}, 0) == 2,
		"since later":       left(turnlog.TurnFilter{Limit: 10, Since: dropped.Message.ReceivedAt.Add(time.Hour)}, 0) == 0,
	} {
		if !got {
			t.Errorf("messages without a turn: %s is wrong", name)
		}
	}
}
