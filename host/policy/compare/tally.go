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

// Kind says what of a decision is different.
type Kind string

// The kinds of change. None and Reason change nothing that happens.
const (
	KindNone   Kind = ""
	KindAnswer Kind = "answer"
	KindReason Kind = "reason" // same answer, for another reason
	KindCall   Kind = "call"   // of an exact replay: a host call or its answer
	KindFuel   Kind = "fuel"   // of an exact replay: same answer at another cost
	KindWarm   Kind = "warm"   // same, of a warm policy: what it cost may hang on decisions before it
)

// Change is how a decision differs.
type Change struct {
	Kind   Kind
	Detail string // the first host call that differs, or the difference in fuel
}

const (
	// maxGroups bounds a tally, since reasons come from modules and have any number of texts. What is beyond goes into a group
	// for the rest.
	maxGroups   = 1000
	maxReason   = 120 // bytes of a group's reason or detail
	theRest     = "(others)"
	defExamples = 3
)

// Tally counts compared decisions. It is safe for concurrent use, at the price of a lock; a worker has one of its own.
type Tally struct {
	examples int

	mu      sync.Mutex
	r       Report
	groups  map[groupKey]*Group
	skipped map[string]int64
}

// groupKey is what decisions of one group have in common.
type groupKey struct {
	policy, kind, was, wasWhy, is, isWhy string
	change                               Change
}

// NewTally returns an empty one, whose groups name so many decisions each; 0 is three, below 0 none.
func NewTally(examples int) *Tally {
	return &Tally{examples: max(0, cmp.Or(examples, defExamples)), groups: map[groupKey]*Group{}, skipped: map[string]int64{}}
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
func (t *Tally) Add(d *Decision, is *policy.Record, c Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Read++
	t.r.Compared++
	t.r.FuelWas.add(d.Fuel)
	t.r.FuelIs.add(is.Fuel)
	t.r.span(d.At)
	if c.Kind != KindNone {
		t.groupOf(keyOf(d, is, c), d.Answer, is.Answer).add(d, t.examples)
	}
}

// Count counts a decision that changed and was compared elsewhere.
func (t *Tally) Count(d *Difference) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Read++
	t.r.Compared++
	t.r.span(d.At)
	key := groupKey{d.Policy, d.Kind, d.Was, d.WasWhy, d.Is, d.IsWhy, d.Change}
	t.groupOf(key, d.Was, d.Is).keep(d.Example, t.examples)
}

// Difference is one decision that changed, in the words of a group.
type Difference struct {
	Policy, Kind           string
	Change                 Change
	Was, WasWhy, Is, IsWhy string
	Example
}

// DifferenceOf says how a decision changed.
func DifferenceOf(d *Decision, is *policy.Record, c Change) Difference {
	k := keyOf(d, is, c)
	return Difference{Policy: k.policy, Kind: k.kind, Change: k.change, Was: k.was, WasWhy: k.wasWhy, Is: k.is, IsWhy: k.isWhy, Example: d.example()}
}

func keyOf(d *Decision, is *policy.Record, c Change) groupKey {
	c.Detail = clip(c.Detail)
	key := groupKey{policy: d.Policy, kind: d.Record.Kind, was: clip(d.Answer), wasWhy: why(&d.Record), is: clip(is.Answer), isWhy: why(is), change: c}
	if c.Kind == KindFuel || c.Kind == KindWarm {
		key.wasWhy, key.isWhy = "", ""
	}
	return key
}

// groupOf finds the group of a changed decision.
func (t *Tally) groupOf(key groupKey, was, is string) *Group {
	g := t.groups[key]
	if g == nil && len(t.groups) >= maxGroups {
		key.was, key.wasWhy, key.is, key.isWhy, key.change.Detail = theRest, "", theRest, "", ""
		g = t.groups[key]
	}
	if g == nil {
		g = key.group()
		g.Effect = effectOf(key, was, is)
		t.groups[key] = g
	} else if key.was == theRest && effectOf(key, was, is) == Looser {
		g.Effect = Looser
	}
	return g
}

func effectOf(key groupKey, was, is string) Effect {
	if key.change.Kind == KindReason || key.change.Kind == KindFuel || key.change.Kind == KindWarm {
		return Other
	}
	return EffectOf(key.kind, was, is)
}

func (k groupKey) group() *Group {
	return &Group{Policy: k.policy, Kind: k.kind, Was: k.was, WasWhy: k.wasWhy, Is: k.is, IsWhy: k.isWhy, Change: k.change.Kind, Detail: k.change.Detail}
}

func (g *Group) key() groupKey {
	return groupKey{g.Policy, g.Kind, g.Was, g.WasWhy, g.Is, g.IsWhy, Change{g.Change, g.Detail}}
}

// why is the reason of an answer in a form that few share with none: of a failure its class.
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

// add counts a decision of the group. It looks into the frame only if the decision is one of the first.
func (g *Group) add(d *Decision, examples int) {
	if g.full(Example{ID: d.ID, At: d.At}, examples) {
		g.Count++
		return
	}
	g.keep(d.example(), examples)
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

// join adds the counts of another tally, which nobody uses any more.
func (t *Tally) join(o *Tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.r.Read += o.r.Read
	t.r.Compared += o.r.Compared
	t.r.FuelWas.join(o.r.FuelWas)
	t.r.FuelIs.join(o.r.FuelIs)
	t.r.span(o.r.From)
	t.r.span(o.r.To)
	for why, n := range o.skipped {
		t.skipped[why] += n
	}
	for key, g := range o.groups {
		mine := t.groups[key]
		if mine == nil {
			t.groups[key] = g
			continue
		}
		mine.Count += g.Count
		mine.Examples = append(mine.Examples, g.Examples...)
		slices.SortFunc(mine.Examples, compareExamples)
		mine.Examples = mine.Examples[:min(len(mine.Examples), t.examples)]
		if g.Effect == Looser {
			mine.Effect = Looser
		}
	}
}

// Report is what has been counted so far, the largest groups first.
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
		return cmp.Or(cmp.Compare(b.Count, a.Count), compareKeys(a.key(), b.key()))
	})
	for why, n := range t.skipped {
		r.Skipped = append(r.Skipped, Skip{why, n})
	}
	slices.SortFunc(r.Skipped, func(a, b Skip) int { return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Why, b.Why)) })
	return r
}

func compareKeys(a, b groupKey) int {
	return cmp.Or(strings.Compare(a.policy, b.policy), strings.Compare(a.kind, b.kind), strings.Compare(a.was, b.was), strings.Compare(a.is, b.is),
		strings.Compare(a.wasWhy, b.wasWhy), strings.Compare(a.isWhy, b.isWhy), strings.Compare(string(a.change.Kind), string(b.change.Kind)),
		strings.Compare(a.change.Detail, b.change.Detail))
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
