package storetest

import (
	"testing"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/store"
)

func archive(t *testing.T, open Opener) {
	s := open()
	one := turn("t1")
	one.State, one.Session, one.Started, one.Inbox = turnlog.TurnDone, "irc:ann:helper#3", noon, nil
	two := one
	two.ID = "t2"
	session := turnlog.Session{Key: one.Session, Agent: "helper", Turns: 2, Last: noon}
	whole := []turnlog.SessionTurn{
		{Turn: one, Steps: []turnlog.Step{{Turn: "t1", Kind: turnlog.StepUser, Data: []byte(`{}`), At: noon}}},
		{Turn: two, Steps: []turnlog.Step{{Turn: "t2", Kind: turnlog.StepUser, Data: []byte(`{}`), At: noon}}},
	}
	sum := &turnlog.Summary{ID: "t1a", Session: session.Key, Through: "t1", Turns: 1, Text: "what was said", Labels: []string{"web:x"}, At: noon}
	check(t, s.PutSession(t.Context(), session, whole, sum))
	s = open()
	equal(t, "session", must[turnlog.Session](t)(s.Session(t.Context(), session.Key)), session)
	equal(t, "turns", must[[]turnlog.Turn](t)(s.SessionTurns(t.Context(), session.Key)), []turnlog.Turn{one, two})
	equal(t, "steps", must[[]turnlog.Step](t)(s.Steps(t.Context(), "t2")), whole[1].Steps)
	equal(t, "summary", must[turnlog.Summary](t)(s.LatestSummary(t.Context(), session.Key)), *sum)
	equal(t, "epoch", must[turnlog.Scope](t)(s.Scope(t.Context(), "irc:ann")).Epoch, 3)

	wantErr(t, s.PutSession(t.Context(), session, nil, nil), store.ErrConflict)
	earlier := turnlog.Session{Key: "irc:ann:helper#2", Agent: "helper"}
	wantErr(t, s.PutSession(t.Context(), earlier, nil, nil), store.ErrConflict)
	later := turnlog.Session{Key: "irc:ann:helper#4", Agent: "helper", Turns: 1}
	wantErr(t, s.PutSession(t.Context(), later, whole[:1], nil), store.ErrConflict) // the turn is there
	equal(t, "epoch after a failure", must[turnlog.Scope](t)(s.Scope(t.Context(), "irc:ann")).Epoch, 3)

	running := turn("t3")
	running.Session = "irc:bob:helper"
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: running}))
	wantErr(t, s.DeleteSession(t.Context(), deletion(running.Session)), store.ErrConflict)
	check(t, s.DeleteSession(t.Context(), deletion(session.Key)))
	wantErr(t, s.DeleteSession(t.Context(), deletion(session.Key)), store.ErrNotFound)
	if turns := must[[]turnlog.Turn](t)(s.SessionTurns(t.Context(), session.Key)); len(turns) != 0 {
		t.Errorf("%d turns are left", len(turns))
	}
	if steps := must[[]turnlog.Step](t)(s.Steps(t.Context(), "t1")); len(steps) != 0 {
		t.Errorf("%d steps are left", len(steps))
	}
}
