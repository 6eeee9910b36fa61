package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
)

// Turn makes the writes of a text turn: accept, commit with the reply, mark sent. n tells one from another.
func Turn(ctx context.Context, s store.Store, n int64) error {
	where := message.Conversation{ID: fmt.Sprint("#c", n%16), Kind: message.Group}
	row, _, err := s.AppendInbox(ctx, message.Message{
		Channel: "irc", EventID: fmt.Sprint(n), Conversation: where, Sender: message.Sender{ID: "ann"}, Text: "hello there",
	}, mailbox.InboxNew, "")
	if err != nil {
		return err
	}
	id := store.NewID(time.Now())
	reply := message.Reply{Key: id, Channel: "irc", Conversation: where, Text: "You said: hello there"}
	err = s.CommitTurn(ctx, turnlog.Commit{
		Turn: turnlog.Turn{
			ID: id, Session: message.SessionKey("irc:" + where.ID + ":helper"), Agent: "helper", Channel: "irc", Conversation: where, Sender: "irc:ann",
			Inbox: []int64{row.ID}, State: turnlog.TurnDone, Started: time.Now(), Ended: time.Now(),
		},
		Steps: []turnlog.Step{
			{Seq: 0, Kind: turnlog.StepUser, Data: []byte(`{"text":"hello there"}`), At: time.Now()},
			{Seq: 1, Kind: turnlog.StepModel, Data: []byte(`{"text":"You said: hello there"}`), At: time.Now()},
		},
		Decisions:  []journal.Decision{{At: time.Now(), Kind: "route", Policy: "table", Answer: "helper"}},
		Replies:    []message.Reply{reply},
		InboxState: mailbox.InboxDone,
	})
	if err != nil {
		return err
	}
	return s.SettleOutbox(ctx, mailbox.OutboxRow{Reply: reply, State: mailbox.OutboxSent, Attempts: 1, PlatformIDs: []string{"1"}})
}
