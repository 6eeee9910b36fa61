package storetest

import (
	"testing"

	"github.com/flynnhost/flynn/host/store"
)

func oneChild(t *testing.T, open Opener) {
	s := open()
	parent := turn("t1", accept(t, s, "e1").ID)
	check(t, s.CommitTurn(t.Context(), store.Commit{Turn: parent, Steps: []store.Step{step(0, store.StepUser, `{}`)}}))
	child := turn("t2")
	child.Session, child.Agent, child.Inbox = "irc:#flynn:helper/t2", "researcher", nil
	child.Parent, child.ParentCall, child.Background = "t1", "c1", true
	begin := store.Commit{Turn: child, Steps: []store.Step{step(0, store.StepUser, `{}`)}}
	check(t, s.CommitTurn(t.Context(), begin))
	second := begin
	second.Turn.ID = "t3"
	wantErr(t, s.CommitTurn(t.Context(), second), store.ErrConflict)

	equal(t, "the child of the call", must[store.Turn](t)(s.Child(t.Context(), "t1", "c1")), child)
	equal(t, "the child by its id", must[store.Turn](t)(s.ChildTurn(t.Context(), "t2")), child)
	for _, miss := range [][2]string{{"t1", "c2"}, {"t2", "c1"}, {"", ""}} {
		_, err := s.Child(t.Context(), miss[0], miss[1])
		wantErr(t, err, store.ErrNotFound)
	}
	_, err := s.ChildTurn(t.Context(), "t1")
	wantErr(t, err, store.ErrNotFound)

	equal(t, "running turns", must[[]store.Turn](t)(s.RunningTurns(t.Context())), []store.Turn{parent, child})
	equal(t, "the history of the conversation", must[[]store.Turn](t)(s.History(t.Context(), "irc", "#flynn", 10)), []store.Turn{parent})
	known := must[[]store.Session](t)(s.Sessions(t.Context(), 10))
	equal(t, "sessions", known, []store.Session{{Key: parent.Session, Agent: "helper", Turns: 1, Last: noon}})

	child.State, child.Ended = store.TurnDone, noon
	check(t, s.CommitTurn(t.Context(), store.Commit{Turn: child, Steps: []store.Step{step(1, store.StepModel, `{}`)}}))
	s = open()
	equal(t, "the child that has ended", must[store.Turn](t)(s.Child(t.Context(), "t1", "c1")), child)
}
