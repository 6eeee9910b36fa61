package compare

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/sdk/cut"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// Kind says how a decision differs.
type Kind string

// The kinds of change. None and Reason change nothing that happens.
const (
	KindNone   Kind = ""
	KindAnswer Kind = "answer"
	KindReason Kind = "reason" // the same answer for another reason
	KindCall   Kind = "call"   // of an exact replay: a host call or its result
	KindFuel   Kind = "fuel"   // of an exact replay: the same answer at another cost
	KindWarm   Kind = "warm"   // like KindFuel, of a warm policy, whose cost may depend on earlier decisions
)

const (
	// maxGroups bounds a tally, because modules may give any number of reasons. All further decisions go into one group.
	maxGroups   = 1000
	maxReason   = 120 // bytes of a group's reason or detail
	theRest     = "(others)"
	defExamples = 3
)

// Tally counts compared decisions. It is safe for concurrent use.
type Tally struct {
	examples int

	mu      sync.Mutex
	r       Report
	groups  map[Key]*Group
	skipped map[string]int64
}

// NewTally returns an empty tally, whose groups have that many examples each; 0 is three, below 0 none.
func NewTally(examples int) *Tally {
	return &Tally{examples: max(0, cmp.Or(examples, defExamples)), groups: map[Key]*Group{}, skipped: map[string]int64{}}
}

// Skip counts a decision that cannot be compared.
func (t *Tally) Skip(why string) { t.SkipMany(why, 1) }

// SkipMany counts n of them.
func (t *Tally) SkipMany(why string, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Read += n
	t.skipped[why] += n
}

// Same counts decisions that did not change.
func (t *Tally) Same(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Read += n
	t.r.Compared += n
}

// Add counts a decision that was made as recorded and would be made as is.
func (t *Tally) Add(d *Decision, is *policy.Record, change Kind, detail string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Read++
	t.r.Compared++
	t.r.FuelWas.add(d.Fuel)
	t.r.FuelIs.add(is.Fuel)
	t.r.span(d.At)
	if change == KindNone {
		return
	}
	g := t.groupOf(keyOf(d, is, change, detail), d.Answer, is.Answer)
	if g.full(Example{ID: d.ID, At: d.At}, t.examples) {
		g.Count++ // without a look into the frame
		return
	}
	g.keep(d.example(), t.examples)
}

// Count counts a decision that changed and was compared elsewhere.
func (t *Tally) Count(d *Difference) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Read++
	t.r.Compared++
	t.r.span(d.At)
	t.groupOf(d.Key, d.Was, d.Is).keep(d.Example, t.examples)
}

// Difference is one decision that changed, with the key of its group.
type Difference struct {
	Key
	Example
}

// DifferenceOf returns how the answer of a decision changed.
func DifferenceOf(d *Decision, is *policy.Record) Difference {
	return Difference{keyOf(d, is, KindAnswer, ""), d.example()}
}

func keyOf(d *Decision, is *policy.Record, change Kind, detail string) Key {
	k := Key{Policy: d.Policy, Kind: d.Record.Kind, Change: change, Detail: clip(detail), Was: clip(d.Answer), Is: clip(is.Answer)}
	if change != KindFuel && change != KindWarm {
		k.WasWhy, k.IsWhy = why(&d.Record), why(is)
	}
	return k
}

// groupOf returns the group of a changed decision, whose answers in the key may have been clipped.
func (t *Tally) groupOf(k Key, was, is string) *Group {
	effect := Other
	if k.Change == KindAnswer || k.Change == KindCall {
		effect = EffectOf(k.Kind, was, is)
	}
	g := t.groups[k]
	if g == nil && len(t.groups) >= maxGroups {
		k = Key{Policy: k.Policy, Kind: k.Kind, Change: k.Change, Was: theRest, Is: theRest}
		g = t.groups[k]
	}
	if g == nil {
		g = &Group{Key: k, Effect: effect}
		t.groups[k] = g
	} else if k.Was == theRest && effect == Looser {
		g.Effect = Looser
	}
	return g
}

// why returns the reason of an answer, or the class of a failure.
func why(r *policy.Record) string {
	if r.Error != "" {
		return "failed: " + clip(string(class(r.Error)))
	}
	return clip(r.Reason)
}

func clip(s string) string {
	if len(s) <= maxReason {
		return s
	}
	return cut.Head(s, maxReason) + "..."
}

// keep counts a decision of the group, and keeps it as an example if it is one of the first.
func (g *Group) keep(e Example, examples int) {
	g.Count++
	if g.full(e, examples) {
		return
	}
	g.Examples = append(g.Examples, e)
	slices.SortFunc(g.Examples, compareExamples)
	g.Examples = g.Examples[:min(len(g.Examples), examples)]
}

func (g *Group) full(e Example, examples int) bool {
	return len(g.Examples) == examples && (examples == 0 || compareExamples(e, g.Examples[examples-1]) >= 0)
}

func (d *Decision) example() Example {
	return Example{ID: d.ID, At: d.At, Channel: d.Fact(abi.Channel), Sender: d.Fact(abi.Sender), Tool: d.Fact(abi.Tool)}
}

func compareExamples(a, b Example) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
}

// Report returns the counts so far, the largest groups first.
func (t *Tally) Report() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.r
	for _, g := range t.groups {
		r.count(g)
		one := *g
		one.Examples = slices.Clone(g.Examples)
		r.Groups = append(r.Groups, one)
	}
	for i := range r.Groups {
		r.Groups[i].Share = share(r.Groups[i].Count, r.Compared)
	}
	slices.SortFunc(r.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), compareKeys(a.Key, b.Key))
	})
	for why, n := range t.skipped {
		r.Skipped = append(r.Skipped, Skip{why, n})
	}
	slices.SortFunc(r.Skipped, func(a, b Skip) int { return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Why, b.Why)) })
	return r
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Was, b.Was), cmp.Compare(a.Is, b.Is),
		cmp.Compare(a.WasWhy, b.WasWhy), cmp.Compare(a.IsWhy, b.IsWhy), cmp.Compare(a.Change, b.Change), cmp.Compare(a.Detail, b.Detail))
}

func share(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// span widens the time that the report covers.
func (r *Report) span(at time.Time) {
	if at.IsZero() {
		return
	}
	if r.From.IsZero() || at.Before(r.From) {
		r.From = at
	}
	if at.After(r.To) {
		r.To = at
	}
}
