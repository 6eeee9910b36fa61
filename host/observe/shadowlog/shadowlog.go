// Package shadowlog records what shadow policies would have changed, and reports it in the form of a replay.
//
// Start with New and Reports. No caller waits for the log: records that the store cannot take in time are dropped and counted.
package shadowlog

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/internal/batch"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/compare"
	"github.com/flynnhost/flynn/host/policy/journal"
)

// Config says where records go.
type Config struct {
	Store  journal.Shadows
	Log    *slog.Logger
	Events *event.Bus // gets Lost; it may be nil
}

// Lost is published for each answer of a policy that could not be kept.
type Lost struct{ Policy string }

// Log records the answers of an engine's shadow policies.
type Log struct {
	writer *batch.Writer[policy.Shadowed]
}

// New makes a log; its records are written while Run runs.
func New(c Config) *Log {
	return &Log{writer: batch.New(batch.Config[policy.Shadowed]{
		Name: "shadow policies", Queue: 1024, Batch: 512, Pause: time.Second, Log: c.Log,
		Write: func(ctx context.Context, list []policy.Shadowed) error {
			differences, counts := summed(list)
			return c.Store.AddShadow(ctx, differences, counts)
		},
		Lost: func(lost []policy.Shadowed) {
			for _, s := range lost {
				c.Events.Publish(Lost{s.Policy})
			}
		},
	})}
}

// Run writes records until ctx ends, and then those that are left.
func (l *Log) Run(ctx context.Context) error { return l.writer.Run(ctx) }

// Shadowed records the answer of a shadow policy. It never waits.
func (l *Log) Shadowed(s policy.Shadowed) {
	l.writer.Put(s)
}

// summed returns the differences among answers, and the number of answers of each outcome.
func summed(list []policy.Shadowed) ([]journal.ShadowDifference, []journal.ShadowCount) {
	var differences []journal.ShadowDifference
	counts := map[journal.ShadowCount]journal.ShadowCount{} // by itself with a count of 0
	for _, s := range list {
		key := journal.ShadowCount{
			Day: s.At.UTC().Truncate(24 * time.Hour), Policy: s.Policy, Digest: s.Digest, File: s.File, Against: s.Against, Outcome: string(s.Outcome),
		}
		sum := key
		sum.Count = counts[key].Count + 1
		counts[key] = sum
		if s.Outcome == policy.ShadowChanged || s.Outcome == policy.ShadowFailed {
			differences = append(differences, difference(s))
		}
	}
	return differences, slices.Collect(maps.Values(counts))
}

func difference(s policy.Shadowed) journal.ShadowDifference {
	d := compare.DifferenceOf(&compare.Decision{At: s.At, Record: s.Was}, &s.Is)
	return journal.ShadowDifference{
		At: s.At, Policy: s.Policy, Digest: s.Digest, File: s.File, Against: s.Against, Kind: d.Kind, Was: d.Was, WasWhy: d.WasWhy, Is: d.Is, IsWhy: d.IsWhy,
		Channel: d.Channel, Sender: d.Sender, Tool: d.Tool,
	}
}

// Report says what one module of a shadow policy would have changed.
type Report struct {
	compare.Report
	Against string `json:"against,omitempty"` // the policy that it was compared with; empty is the whole chain
	Failed  int64  `json:"failed"`            // changes for which the shadow failed
	Dropped int64  `json:"dropped"`           // not asked, because it could not keep up
}

// Source reads records; a store is one, and so is a read-only view of it.
type Source interface {
	ShadowCounts(context.Context, journal.ShadowFilter) ([]journal.ShadowCount, error)
	ShadowDifferences(context.Context, journal.ShadowFilter) iter.Seq2[journal.ShadowDifference, error]
}

// Reports returns a report for each module of a shadow policy, the most recently asked first.
func Reports(ctx context.Context, log Source, f journal.ShadowFilter, examples int) ([]Report, error) {
	counts, err := log.ShadowCounts(ctx, f)
	if err != nil {
		return nil, err
	}
	tallies := map[key]*tally{}
	for _, n := range counts {
		k := key{n.Policy, n.Digest, n.Against}
		if tallies[k] == nil {
			tallies[k] = &tally{tally: compare.NewTally(examples)}
		}
		tallies[k].add(n)
	}
	for d, err := range log.ShadowDifferences(ctx, f) {
		if err != nil {
			return nil, err
		}
		if t := tallies[key{d.Policy, d.Digest, d.Against}]; t != nil {
			t.tally.Count(&compare.Difference{
				Key:     compare.Key{Policy: d.Policy, Kind: d.Kind, Change: compare.KindAnswer, Was: d.Was, WasWhy: d.WasWhy, Is: d.Is, IsWhy: d.IsWhy},
				Example: compare.Example{At: d.At, Channel: d.Channel, Sender: d.Sender, Tool: d.Tool},
			})
		}
	}
	return collect(tallies), nil
}

// key names a report.
type key struct{ policy, digest, against string }

type tally struct {
	tally           *compare.Tally
	file            string
	last            time.Time
	failed, dropped int64
}

func (t *tally) add(n journal.ShadowCount) {
	t.file, t.last = n.File, n.Day
	switch policy.ShadowOutcome(n.Outcome) {
	case policy.ShadowSame:
		t.tally.Same(n.Count)
	case policy.ShadowFailed:
		t.failed += n.Count
	case policy.ShadowDropped:
		t.dropped += n.Count
		t.tally.SkipMany("the shadow could not keep up", n.Count)
	case policy.ShadowSkipped:
		t.tally.SkipMany("the policy that it shadows was not asked", n.Count)
	}
}

func collect(tallies map[key]*tally) []Report {
	reports := []Report{}
	last := func(r Report) time.Time { return tallies[key{r.Policy, r.Digest, r.Against}].last }
	for k, t := range tallies {
		r := Report{Report: t.tally.Report(), Against: k.against, Failed: t.failed, Dropped: t.dropped}
		r.Policy, r.Digest, r.File = k.policy, k.digest, t.file
		reports = append(reports, r)
	}
	slices.SortFunc(reports, func(a, b Report) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), last(b).Compare(last(a)), cmp.Compare(a.Digest, b.Digest), cmp.Compare(a.Against, b.Against))
	})
	return reports
}
