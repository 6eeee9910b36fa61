package channel

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// turnMemory is an outbox table of one turn.
type turnMemory struct{ *memory }

func (m turnMemory) Replies(context.Context, string) ([]mailbox.OutboxRow, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var rows []mailbox.OutboxRow
	for _, k := range m.keys {
		rows = append(rows, m.rows[k])
	}
	return rows, nil
}

func TestAnAmendmentTakesTheButtonsAway(t *testing.T) {
	sent := row("ask", "#a", mailbox.OutboxSent)
	sent.PlatformIDs = []string{"m1"}
	amend := row("answered", "#a", mailbox.OutboxPending)
	amend.Reply.Amends, amend.Reply.Text = "ask", "Approved by ann."
	for _, c := range []struct {
		name    string
		earlier mailbox.OutboxRow
		able    bool
		refuse  []any
		shows   string
		note    string
	}{
		{"edited", sent, true, nil, "ask\n\nApproved by ann.", noteAmended},
		{"asked to wait", sent, true, []any{message.Revised{RetryAfter: time.Minute}}, "ask\n\nApproved by ann.", noteAmended},
		{"fails at first", sent, true, []any{context.DeadlineExceeded}, "ask\n\nApproved by ann.", noteAmended},
		{"never", sent, true, []any{message.Revised{Never: true}}, "ask", noteLeft},
		{"the channel cannot", sent, false, nil, "ask", noteLeft},
		{"not delivered", row("ask", "#a", mailbox.OutboxDead), true, nil, "ask", noteLeft},
		{"in parts", func() mailbox.OutboxRow {
			r := sent
			r.Parts, r.PlatformIDs = []string{"a", "sk"}, []string{"m0", "m1"}
			return r
		}(), true, nil, "sk\n\nApproved by ann.", noteAmended},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := turnMemory{newMemory(c.earlier, amend)}
				s := newCanvas(true)
				s.shows["m1"], s.refuse, s.can.Edit = "ask", c.refuse, c.able
				run(t, m, s, 2*time.Minute)
				if got := s.shows["m1"]; got != c.shows {
					t.Errorf("shows %q, want %q", got, c.shows)
				}
				if r := m.rows["answered"]; r.State != mailbox.OutboxSent || r.Note != c.note {
					t.Errorf("the amendment is %s, %q; want it done, %q", r.State, r.Note, c.note)
				}
				if len(s.order) != 0 {
					t.Errorf("%d messages were sent for it", len(s.order))
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // a channel that edits nothing at all
		m, s := turnMemory{newMemory(sent, amend)}, &script{}
		run(t, m, s, time.Minute)
		if len(s.sent) != 0 || m.rows["answered"].State != mailbox.OutboxSent {
			t.Errorf("sent %q, row %+v", s.sent, m.rows["answered"])
		}
	})
	synctest.Test(t, func(t *testing.T) { // behind the message that it amends, which is not delivered yet
		ask := row("ask", "#a", mailbox.OutboxPending)
		ask.Reply.Buttons = []message.Button{{Text: "Once", Value: "/approve A"}}
		m, s := turnMemory{newMemory(ask, amend)}, newCanvas(true)
		run(t, m, s, time.Minute)
		if len(s.order) != 1 || s.shows["m1"] != "ask\n\nApproved by ann." {
			t.Errorf("shows %v", s.shows)
		}
	})
}
