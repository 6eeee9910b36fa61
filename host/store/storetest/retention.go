package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// prunes writes everything that is pruned twice, long ago and just now, with what waits or is in force among the old.
func prunes(t *testing.T, open Opener) {
	s := open()
	const many = 1200 // more than goes at once
	ages := map[string]time.Time{"old": noon.Add(-100 * 24 * time.Hour), "new": noon}
	for age, at := range ages {
		id := store.NewID(at)
		tn := turn(id)
		tn.State, tn.Session, tn.Started, tn.Ended = turnlog.TurnDone, message.SessionKey("irc:"+age+":helper"), at, at
		c := turnlog.Commit{
			Turn: tn, Extract: true,
			Results:   []turnlog.KeptResult{{ID: "r", Session: tn.Session, Text: "whole", At: at}},
			Decisions: []journal.Decision{{At: at, Kind: "tool", Policy: age, Text: age}, {At: at, Kind: "tool", Policy: age, Text: "both"}},
			Usage:     []usage.Row{{At: at, Day: "d", Turn: id, Agent: age}},
		}
		check(t, s.CommitTurn(t.Context(), c))
		for i := range 2 {
			tn := turn(store.NewIDAfter(id, at.Add(time.Minute*time.Duration(i+1))))
			tn.Session, tn.State = c.Turn.Session, turnlog.TurnDone
			sum := &turnlog.Summary{ID: store.NewID(at.Add(time.Duration(i) * time.Second)), Session: tn.Session, Through: id, Text: fmt.Sprint("summary ", i), At: at}
			check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: tn, Summary: sum}))
		}
		for _, state := range []consent.ApprovalState{consent.ApprovalPending, consent.ApprovalConsumed} {
			check(t, s.AddApproval(t.Context(), consent.Approval{ID: age + string(state), Turn: id, State: state, Args: json.RawMessage("{}")}))
		}
		check(t, s.AddAudit(t.Context(), []consent.AuditRow{{At: at, Kind: "used", Subject: age}}))
	}
	var flood []journal.Decision
	for i := range many {
		flood = append(flood, journal.Decision{At: ages["old"], Kind: "route", Policy: "flood", Text: fmt.Sprint("text ", i)})
	}
	check(t, s.AddDecisions(t.Context(), flood))

	equal(t, "pruned with nothing to prune by", must[map[string]int](t)(s.Prune(t.Context(), store.Retention{})), map[string]int{})
	stopped, stop := context.WithCancel(t.Context())
	stop()
	cut := noon.Add(-time.Hour)
	if _, err := s.Prune(stopped, store.Retention{Usage: cut}); !errors.Is(err, context.Canceled) {
		t.Fatalf("pruning goes on after the end: %v", err)
	}
	gone := must[map[string]int](t)(s.Prune(t.Context(), store.Retention{Results: cut, Decisions: cut, Audit: cut, Usage: cut}))
	equal(t, "pruned", gone, map[string]int{
		"results": 1, "summaries": 1, "extractions": 1, "approvals": 1, "decisions": many + 2, "decision_texts": many + 1, "audit": 1, "usage": 1,
	})

	s = open()
	if _, err := s.KeptResult(t.Context(), "irc:old:helper", "r"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an old result: %v", err)
	}
	must[turnlog.KeptResult](t)(s.KeptResult(t.Context(), "irc:new:helper", "r"))
	for age := range ages {
		equal(t, "the summary in force", must[turnlog.Summary](t)(s.LatestSummary(t.Context(), message.SessionKey("irc:"+age+":helper"))).Text, "summary 1")
	}
	left := must[[]journal.Decision](t)(s.ListDecisions(t.Context(), journal.DecisionFilter{}))
	if len(left) != 2 || left[0].Text != "new" || left[1].Text != "both" {
		t.Errorf("decisions left: %+v", left)
	}
	for state, want := range map[consent.ApprovalState]int{consent.ApprovalPending: 2, consent.ApprovalConsumed: 1} {
		if list := must[[]consent.Approval](t)(s.ListApprovals(t.Context(), state, 10)); len(list) != want {
			t.Errorf("%d requests are left in the state %s, want %d", len(list), state, want)
		}
	}
	if list := must[[]memory.Extraction](t)(s.PendingExtractions(t.Context(), 10)); len(list) != 1 || list[0].Turn.Session != "irc:new:helper" {
		t.Errorf("extractions left: %+v", list)
	}
	if list := must[[]usage.Row](t)(s.ListUsage(t.Context(), usage.Filter{})); len(list) != 1 || list[0].Agent != "new" {
		t.Errorf("usage left: %+v", list)
	}
	equal(t, "pruned again", must[map[string]int](t)(s.Prune(t.Context(), store.Retention{Results: cut, Decisions: cut, Audit: cut, Usage: cut})), map[string]int{})
}
