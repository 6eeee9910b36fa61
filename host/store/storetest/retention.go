package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// prunes writes everything that is pruned twice, long ago and just now, with what waits or is in force among the old.
func prunes(t *testing.T, open Opener) {
	s := open()
	const many = 1200 // more than goes at once
	ages := map[string]time.Time{"old": noon.Add(-100 * 24 * time.Hour), "new": noon}
	for age, at := range ages {
		id := store.NewID(at)
		tn := turn(id)
		tn.State, tn.Session, tn.Started, tn.Ended = store.TurnDone, "irc:"+age+":helper", at, at
		c := store.Commit{
			Turn: tn, Extract: true,
			Results:   []store.KeptResult{{ID: "r", Session: tn.Session, Text: "whole", At: at}},
			Decisions: []store.Decision{{At: at, Kind: "tool", Policy: age, Text: age}, {At: at, Kind: "tool", Policy: age, Text: "both"}},
			Usage:     []store.Usage{{At: at, Day: "d", Turn: id, Agent: age}},
		}
		check(t, s.CommitTurn(t.Context(), c))
		for i := range 2 {
			tn := turn(store.NewIDAfter(id, at.Add(time.Minute*time.Duration(i+1))))
			tn.Session, tn.State = c.Turn.Session, store.TurnDone
			sum := &store.Summary{ID: store.NewID(at.Add(time.Duration(i) * time.Second)), Session: tn.Session, Through: id, Text: fmt.Sprint("summary ", i), At: at}
			check(t, s.CommitTurn(t.Context(), store.Commit{Turn: tn, Summary: sum}))
		}
		for _, state := range []store.ApprovalState{store.ApprovalPending, store.ApprovalConsumed} {
			check(t, s.AddApproval(t.Context(), store.Approval{ID: age + string(state), Turn: id, State: state, Args: json.RawMessage("{}")}))
		}
		check(t, s.AddAudit(t.Context(), []store.AuditRow{{At: at, Kind: "used", Subject: age}}))
	}
	var flood []store.Decision
	for i := range many {
		flood = append(flood, store.Decision{At: ages["old"], Kind: "route", Policy: "flood", Text: fmt.Sprint("text ", i)})
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
	must[store.KeptResult](t)(s.KeptResult(t.Context(), "irc:new:helper", "r"))
	for age := range ages {
		equal(t, "the summary in force", must[store.Summary](t)(s.LatestSummary(t.Context(), "irc:"+age+":helper")).Text, "summary 1")
	}
	left := must[[]store.Decision](t)(s.ListDecisions(t.Context(), store.DecisionFilter{}))
	if len(left) != 2 || left[0].Text != "new" || left[1].Text != "both" {
		t.Errorf("decisions left: %+v", left)
	}
	for state, want := range map[store.ApprovalState]int{store.ApprovalPending: 2, store.ApprovalConsumed: 1} {
		if list := must[[]store.Approval](t)(s.ListApprovals(t.Context(), state, 10)); len(list) != want {
			t.Errorf("%d requests are left in the state %s, want %d", len(list), state, want)
		}
	}
	if list := must[[]store.Extraction](t)(s.PendingExtractions(t.Context(), 10)); len(list) != 1 || list[0].Turn.Session != "irc:new:helper" {
		t.Errorf("extractions left: %+v", list)
	}
	if list := must[[]store.Usage](t)(s.ListUsage(t.Context(), store.UsageFilter{})); len(list) != 1 || list[0].Agent != "new" {
		t.Errorf("usage left: %+v", list)
	}
	equal(t, "pruned again", must[map[string]int](t)(s.Prune(t.Context(), store.Retention{Results: cut, Decisions: cut, Audit: cut, Usage: cut})), map[string]int{})
}
