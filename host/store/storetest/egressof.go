package storetest

import (
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/store"
)

// egressOfAPerson: what was asked for in the conversations of a sender, in all of their sessions, and in no other one whose name begins alike.
func egressOfAPerson(t *testing.T, open Opener) {
	s := open()
	const ann = message.SenderKey("irc:ann \"' ]] %_")
	for i, turn := range []turnlog.Turn{
		{Sender: ann, Session: "irc/dm:ann:main"},
		{Sender: ann, Session: "irc/dm:ann:main#2"},
		{Sender: ann, Session: "irc/group:x#1:main#3"},
		{Sender: "irc:bob", Session: "irc/dm:ann:b:main"},
	} {
		turn.ID, turn.Agent, turn.Channel, turn.State, turn.Started = store.NewID(time.Now().Add(time.Duration(i))), "main", "irc", turnlog.TurnDone, time.Now()
		if err := s.CommitTurn(t.Context(), turnlog.Commit{Turn: turn, InboxState: mailbox.InboxDone}); err != nil {
			t.Fatal(err)
		}
	}
	for id, session := range map[string]message.WorkspaceKey{"a": "irc/dm:ann:main", "b": "irc/dm:ann:helper", "c": "irc/group:x#1:main", "d": "irc/dm:ann:b:main", "e": "irc/dm:annie:main"} {
		if err := s.AddEgress(t.Context(), []egress.Record{{ID: id, At: time.Now(), Session: session}}); err != nil {
			t.Fatal(err)
		}
	}
	for person, want := range map[message.SenderKey]int{ann: 3, "irc:bob": 1, "irc:eve": 0, "irc:ann %": 0, "": 5} {
		got, err := s.ListEgress(t.Context(), egress.RecordFilter{Person: person})
		if err != nil || len(got) != want {
			t.Errorf("%q: %+v, %v", person, got, err)
		}
	}
}
