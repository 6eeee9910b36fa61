package storetest

import (
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/store"
)

func oneChild(t *testing.T, open Opener) {
	s := open()
	parent := turn("t1", accept(t, s, "e1").ID)
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: parent, Steps: []turnlog.Step{step(0, turnlog.StepUser, `{}`)}}))
	child := turn("t2")
	child.Session, child.Agent, child.Inbox = "irc:#flynn:helper/t2", "researcher", nil
	child.Parent, child.ParentCall, child.Background = "t1", "c1", true
	begin := turnlog.Commit{Turn: child, Steps: []turnlog.Step{step(0, turnlog.StepUser, `{}`)}}
	check(t, s.CommitTurn(t.Context(), begin))
	second := begin
	second.Turn.ID = "t3"
	wantErr(t, s.CommitTurn(t.Context(), second), store.ErrConflict)

	equal(t, "the child of the call", must[turnlog.Turn](t)(s.Child(t.Context(), "t1", "c1")), child)
	equal(t, "the child by its id", must[turnlog.Turn](t)(s.ChildTurn(t.Context(), "t2")), child)
	for _, miss := range [][2]string{{"t1", "c2"}, {"t2", "c1"}, {"", ""}} {
		_, err := s.Child(t.Context(), miss[0], miss[1])
		wantErr(t, err, store.ErrNotFound)
	}
	_, err := s.ChildTurn(t.Context(), "t1")
	wantErr(t, err, store.ErrNotFound)

	equal(t, "running turns", must[[]turnlog.Turn](t)(s.RunningTurns(t.Context())), []turnlog.Turn{parent, child})
	equal(t, "the history of the conversation", must[[]turnlog.Turn](t)(s.History(t.Context(), "irc", "#flynn", 10)), []turnlog.Turn{parent})
	known := must[[]turnlog.Session](t)(s.Sessions(t.Context(), 10))
	equal(t, "sessions", known, []turnlog.Session{{Key: parent.Session, Agent: "helper", Turns: 1, Last: noon}})

	child.State, child.Ended = turnlog.TurnDone, noon
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: child, Steps: []turnlog.Step{step(1, turnlog.StepModel, `{}`)}}))
	s = open()
	equal(t, "the child that has ended", must[turnlog.Turn](t)(s.Child(t.Context(), "t1", "c1")), child)
}
