package storetest

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/policy/journal"
)

// all returns what a sequence yields.
func all[T any](t *testing.T, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var list []T
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

// eachDecision reads more decisions than one query does, some of them of the same moment.
func eachDecision(t *testing.T, open Opener) {
	s := open()
	const n = 1300
	var ds []journal.Decision
	for k := range n {
		d := journal.Decision{
			At: noon.Add(time.Duration(k/7) * time.Second), Kind: "tool", Policy: "even", Text: fmt.Sprint("text ", k%3), Calls: []byte("[1]"), Fuel: int64(k),
		}
		if k%2 == 1 {
			d.Policy, d.Kind, d.Text = "odd", "route", ""
		}
		ds = append(ds, d)
	}
	late := journal.Decision{At: noon.Add(-time.Hour), Kind: "tool", Policy: "even", Fuel: -1} // written last, of an earlier time
	check(t, s.AddDecisions(t.Context(), append(ds, late)))
	for _, c := range []struct {
		name        string
		filter      journal.DecisionFilter
		count       int
		first, last int64 // by their fuel
	}{
		{"all", journal.DecisionFilter{}, n + 1, -1, n - 1},
		{"a policy", journal.DecisionFilter{Policy: "odd"}, n / 2, 1, n - 1},
		{"a kind", journal.DecisionFilter{Kind: "tool"}, n/2 + 1, -1, n - 2},
		{"since", journal.DecisionFilter{Since: noon}, n, 0, n - 1},
		{"until", journal.DecisionFilter{Until: noon.Add(100 * time.Second)}, 701, -1, 699},
		{"a policy in a span", journal.DecisionFilter{Policy: "even", Since: noon.Add(100 * time.Second), Until: noon.Add(101 * time.Second)}, 4, 700, 706},
		{"a limit", journal.DecisionFilter{Limit: 513}, 513, -1, 511},
		{"one", journal.DecisionFilter{ID: 8}, 1, 7, 7},
		{"none", journal.DecisionFilter{Policy: "other"}, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := all(t, s.EachDecision(t.Context(), c.filter))
			if len(got) != c.count {
				t.Fatalf("%d decisions, want %d", len(got), c.count)
			}
			if c.count > 0 && (got[0].Fuel != c.first || got[len(got)-1].Fuel != c.last) {
				t.Errorf("from %d to %d, want %d to %d", got[0].Fuel, got[len(got)-1].Fuel, c.first, c.last)
			}
			for k := 1; k < len(got); k++ {
				if got[k].At.Before(got[k-1].At) || got[k].ID == got[k-1].ID {
					t.Fatalf("decision %d is %+v after %+v", k, got[k], got[k-1])
				}
			}
		})
	}
	for d, err := range s.EachDecision(t.Context(), journal.DecisionFilter{Since: noon, WithoutCalls: true}) {
		if err != nil || d.Calls != nil || d.Text != ds[0].Text {
			t.Errorf("%v: %+v", err, d)
		}
		break // and the rest is not asked for
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	rows, failed := 0, false
	for _, err := range s.EachDecision(ended, journal.DecisionFilter{}) {
		rows, failed = rows+1, err != nil
	}
	if rows != 1 || !failed {
		t.Errorf("an ended context gives %d rows, failed %v", rows, failed)
	}
}

// shadows keeps differences and adds up counts.
func shadows(t *testing.T, open Opener) {
	s := open()
	d := journal.ShadowDifference{
		At: noon, Policy: "next", Digest: "d", File: "f", Against: "guard", Kind: "tool", Was: "none", WasWhy: "a", Is: "deny", IsWhy: "b", Channel: "irc",
		Sender: "irc:al", Tool: "shell.run",
	}
	later := d
	later.At, later.Policy = noon.Add(48*time.Hour), "other"
	c := journal.ShadowCount{Day: noon, Policy: "next", Digest: "d", File: "f", Against: "guard", Outcome: "same", Count: 5}
	check(t, s.AddShadow(t.Context(), []journal.ShadowDifference{d, later}, []journal.ShadowCount{c}))
	check(t, s.AddShadow(t.Context(), nil, []journal.ShadowCount{c}))
	s = open()
	if got := all(t, s.ShadowDifferences(t.Context(), journal.ShadowFilter{Policy: "next"})); !reflect.DeepEqual(got, []journal.ShadowDifference{d}) {
		t.Errorf("differences %+v", got)
	}
	if got := all(t, s.ShadowDifferences(t.Context(), journal.ShadowFilter{Since: noon.Add(time.Hour)})); !reflect.DeepEqual(got, []journal.ShadowDifference{later}) {
		t.Errorf("late differences %+v", got)
	}
	c.Count, c.Day = 10, noon.Truncate(24*time.Hour)
	if got := must[[]journal.ShadowCount](t)(s.ShadowCounts(t.Context(), journal.ShadowFilter{Policy: "next", Since: noon})); !reflect.DeepEqual(got, []journal.ShadowCount{c}) {
		t.Errorf("counts %+v", got)
	}
	// A month later they are gone.
	later.At, c.Day, c.Count = noon.Add(33*24*time.Hour), noon.Add(33*24*time.Hour), 1
	check(t, s.AddShadow(t.Context(), []journal.ShadowDifference{later}, []journal.ShadowCount{c}))
	if got := all(t, s.ShadowDifferences(t.Context(), journal.ShadowFilter{})); len(got) != 1 {
		t.Errorf("a month later there are %+v", got)
	}
	if got := must[[]journal.ShadowCount](t)(s.ShadowCounts(t.Context(), journal.ShadowFilter{})); len(got) != 1 || got[0].Count != 1 {
		t.Errorf("a month later the counts are %+v", got)
	}
}

// listedDecisions pages through decisions from the latest one on.
func listedDecisions(t *testing.T, open Opener) {
	s := open()
	var ds []journal.Decision
	for k := range 25 {
		ds = append(ds, journal.Decision{At: noon, Kind: "tool", Policy: []string{"even", "odd"}[k%2], Turn: []string{"t1", ""}[k%2], Text: "text"})
	}
	check(t, s.AddDecisions(t.Context(), ds))
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: turn("t1")}))
	s = open()
	var got []journal.Listed
	before := int64(0)
	for {
		page := must[[]journal.Listed](t)(s.LatestDecisions(t.Context(), journal.DecisionFilter{Policy: "even", Limit: 5}, before))
		if len(page) == 0 {
			break
		}
		got, before = append(got, page...), page[len(page)-1].ID
	}
	if len(got) != 13 || got[0].ID <= got[12].ID || got[0].Policy != "even" || got[0].Text != "text" || got[0].Agent == "" || got[0].Sender == "" || got[0].Channel == "" {
		t.Errorf("%d decisions, the latest %+v", len(got), got[0])
	}
	if odd := must[[]journal.Listed](t)(s.LatestDecisions(t.Context(), journal.DecisionFilter{Policy: "odd"}, 0)); len(odd) != 12 || odd[0].Agent != "" {
		t.Errorf("%d decisions without a turn: %+v", len(odd), odd[0])
	}
}
