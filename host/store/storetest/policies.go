package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
)

func policyHistory(t *testing.T, open Opener) {
	s := open()
	first := journal.Change{
		At: noon, Policy: "guard", Path: "/p/guard.wasm", Outcome: "in force", File: "f1", Digest: "d1", Version: "1.0.0", Source: "s1",
		NowFile: "f1", NowDigest: "d1", By: "start",
	}
	again := first
	again.At, again.By = noon.Add(time.Minute), "file"
	back := journal.Change{
		At: noon.Add(time.Hour), Policy: "guard", Outcome: "rolled back", File: "f0", Digest: "d0", Over: "f1", NowFile: "f0", NowDigest: "d0",
		By: "command", Reason: "no \x00 \xff",
	}
	other := journal.Change{At: noon, Policy: "other", Outcome: "refused", File: "f9", By: "file", Reason: "because"}
	for _, c := range []journal.Change{first, again, other, back, other} {
		check(t, s.AddPolicyChange(t.Context(), c))
	}
	s = open()
	ids := func(f journal.ChangeFilter) (files []string) {
		for _, c := range must[[]journal.Change](t)(s.ListPolicyChanges(t.Context(), f)) {
			files = append(files, c.File)
		}
		return files
	}
	all := must[[]journal.Change](t)(s.ListPolicyChanges(t.Context(), journal.ChangeFilter{}))
	for i := range all {
		all[i].ID = 0
	}
	if want := []journal.Change{first, other, back}; !reflect.DeepEqual(all, want) {
		t.Fatalf("changes are\n%+v, want\n%+v", all, want)
	}
	if got := ids(journal.ChangeFilter{Policy: "guard", Limit: 1}); !slices.Equal(got, []string{"f0"}) {
		t.Errorf("the latest change is of %v", got)
	}
	files := must[[]string](t)(s.PolicyFiles(t.Context()))
	if slices.Sort(files); !slices.Equal(files, []string{"f0", "f1", "f9"}) {
		t.Errorf("the history names %v", files)
	}
}

func policyHistoryIsBounded(t *testing.T, open Opener) {
	s := open()
	check(t, s.AddPolicyChange(t.Context(), journal.Change{At: noon, Policy: "quiet", Outcome: "in force", File: "q"}))
	for n := range 250 {
		check(t, s.AddPolicyChange(t.Context(), journal.Change{At: noon, Policy: "busy", Outcome: "in force", File: fmt.Sprint(n)}))
	}
	busy := must[[]journal.Change](t)(s.ListPolicyChanges(t.Context(), journal.ChangeFilter{Policy: "busy"}))
	if len(busy) < 100 || len(busy) >= 250 || busy[len(busy)-1].File != "249" {
		t.Errorf("%d changes are kept, the last of %s", len(busy), busy[len(busy)-1].File)
	}
	if quiet := must[[]journal.Change](t)(s.ListPolicyChanges(t.Context(), journal.ChangeFilter{Policy: "quiet"})); len(quiet) != 1 {
		t.Errorf("%d changes of the other policy", len(quiet))
	}
}

func latestDecisions(t *testing.T, open Opener) {
	s := open()
	var ds []journal.Decision
	for n := range 10 {
		ds = append(ds, journal.Decision{At: noon.Add(time.Duration(n) * time.Minute), Kind: "tool", Policy: "p"})
	}
	check(t, s.AddDecisions(t.Context(), append(ds, journal.Decision{At: noon.Add(time.Hour), Kind: "tool", Policy: "q"})))
	for _, c := range []struct {
		policy string
		n      int
		want   time.Time
	}{{"p", 3, noon.Add(7 * time.Minute)}, {"p", 100, noon}, {"q", 3, noon.Add(time.Hour)}, {"none", 3, time.Time{}}} {
		if got := must[time.Time](t)(s.LatestDecisionsSince(t.Context(), c.policy, c.n)); !got.Equal(c.want) {
			t.Errorf("the latest %d of %s are since %v, want %v", c.n, c.policy, got, c.want)
		}
	}
}

func policyModules(t *testing.T, open Opener) {
	s := open()
	m := journal.Module{Digest: "d", File: "f", Policy: "guard", Version: "1.0.0", Source: "s", At: noon}
	check(t, s.AddPolicyModule(t.Context(), m))
	other := m
	other.Version = "2.0.0"
	check(t, s.AddPolicyModule(t.Context(), other))
	s = open()
	if got := must[journal.Module](t)(s.PolicyModule(t.Context(), "d")); got != m {
		t.Errorf("module is %+v, want %+v", got, m)
	}
	if _, err := s.PolicyModule(t.Context(), "e"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("error is %v", err)
	}
}
