package host

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/compare"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// shadowLog counts what shadow policies would have changed, and keeps it. Nobody waits for it: what the store cannot take in
// time is dropped and reported.
type shadowLog struct {
	store store.Shadows
	log   *slog.Logger
	count func(policy, outcome string)
	queue chan policy.Shadowed
}

const (
	// shadowQueue bounds what waits, shadowBatch what is committed together.
	shadowQueue = 1024
	shadowBatch = 512
	// shadowPause collects, so that live traffic costs the disk no more than a commit a second.
	shadowPause = time.Second
	// shadowTimeout bounds one commit.
	shadowTimeout = 10 * time.Second
)

func newShadowLog(s store.Shadows, m *metrics, log *slog.Logger) *shadowLog {
	return &shadowLog{store: s, log: log, count: m.policyShadow, queue: make(chan policy.Shadowed, shadowQueue)}
}

// shadowed takes what an engine tells. It never waits.
func (l *shadowLog) shadowed(s policy.Shadowed) {
	l.count(s.Policy, string(s.Outcome))
	select {
	case l.queue <- s:
	default:
		l.count(s.Policy, "lost")
	}
}

// run commits until ctx ends, and then what is left.
func (l *shadowLog) run(ctx context.Context) error {
	tick := time.NewTicker(shadowPause)
	defer tick.Stop()
	b := newShadowed()
	for {
		select {
		case s := <-l.queue:
			if b.add(s); b.n < shadowBatch {
				continue
			}
		case <-tick.C:
		case <-ctx.Done():
			for len(l.queue) > 0 {
				b.add(<-l.queue)
			}
			l.commit(ctx, b)
			return nil
		}
		l.commit(ctx, b)
		b = newShadowed()
	}
}

func (l *shadowLog) commit(ctx context.Context, b *shadowedBatch) {
	if b.n == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shadowTimeout)
	defer cancel()
	if err := l.store.AddShadow(ctx, b.differences, slices.Collect(maps.Values(b.counts))); err != nil {
		l.log.Error("what shadow policies would change cannot be kept", "decisions", b.n, "error", err)
	}
}

// shadowedBatch is what is committed together.
type shadowedBatch struct {
	n           int
	differences []store.ShadowDifference
	counts      map[store.ShadowCount]store.ShadowCount // by itself with a count of 0
}

func newShadowed() *shadowedBatch {
	return &shadowedBatch{counts: map[store.ShadowCount]store.ShadowCount{}}
}

func (b *shadowedBatch) add(s policy.Shadowed) {
	b.n++
	key := store.ShadowCount{
		Day: s.At.UTC().Truncate(24 * time.Hour), Policy: s.Policy, Digest: s.Digest, File: s.File, Against: s.Against, Outcome: string(s.Outcome),
	}
	sum := key
	sum.Count = b.counts[key].Count + 1
	b.counts[key] = sum
	if s.Outcome != policy.ShadowChanged && s.Outcome != policy.ShadowFailed {
		return
	}
	d := compare.DifferenceOf(&compare.Decision{At: s.At, Record: s.Was}, &s.Is, compare.Change{Kind: compare.KindAnswer})
	b.differences = append(b.differences, store.ShadowDifference{
		At: s.At, Policy: s.Policy, Digest: s.Digest, File: s.File, Against: s.Against, Kind: d.Kind, Was: d.Was, WasWhy: d.WasWhy, Is: d.Is, IsWhy: d.IsWhy,
		Channel: d.Channel, Sender: d.Sender, Tool: d.Tool,
	})
}

// ShadowReport is what one module of a shadow policy would have changed.
type ShadowReport struct {
	compare.Report
	Against string `json:"against,omitempty"` // the policy that it was compared with; empty is the whole chain
	Failed  int64  `json:"failed"`            // of the changes, those where the shadow failed
	Dropped int64  `json:"dropped"`           // not asked, because it could not keep up
}

// ShadowReports reads what shadow policies would have changed, beside a host that may be running: a report for each module, the one
// that was asked last first.
func ShadowReports(ctx context.Context, c *config.Config, f store.ShadowFilter, examples int) (reports []ShadowReport, err error) {
	log, err := sqlite.OpenReader(ctx, c.Store.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	counts, err := log.ShadowCounts(ctx, f)
	if err != nil {
		return nil, err
	}
	tallies := map[shadowKey]*shadowTally{}
	for _, n := range counts {
		k := shadowKey{n.Policy, n.Digest, n.Against}
		if tallies[k] == nil {
			tallies[k] = &shadowTally{tally: compare.NewTally(examples)}
		}
		tallies[k].add(n)
	}
	for d, err := range log.ShadowDifferences(ctx, f) {
		if err != nil {
			return nil, err
		}
		if t := tallies[shadowKey{d.Policy, d.Digest, d.Against}]; t != nil {
			t.tally.Count(&compare.Difference{
				Policy: d.Policy, Kind: d.Kind, Change: compare.Change{Kind: compare.KindAnswer}, Was: d.Was, WasWhy: d.WasWhy, Is: d.Is, IsWhy: d.IsWhy,
				Example: compare.Example{At: d.At, Channel: d.Channel, Sender: d.Sender, Tool: d.Tool},
			})
		}
	}
	return collect(tallies), nil
}

// shadowKey is what a report is about.
type shadowKey struct{ policy, digest, against string }

type shadowTally struct {
	tally           *compare.Tally
	file            string
	last            time.Time
	failed, dropped int64
}

func (t *shadowTally) add(n store.ShadowCount) {
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

func collect(tallies map[shadowKey]*shadowTally) []ShadowReport {
	reports := []ShadowReport{}
	last := map[string]time.Time{} // by digest
	for k, t := range tallies {
		r := ShadowReport{Report: t.tally.Report(), Against: k.against, Failed: t.failed, Dropped: t.dropped}
		r.Policy, r.Digest, r.File = k.policy, k.digest, t.file
		last[r.Digest] = t.last
		reports = append(reports, r)
	}
	slices.SortFunc(reports, func(a, b ShadowReport) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), last[b.Digest].Compare(last[a.Digest]), cmp.Compare(a.Digest, b.Digest), cmp.Compare(a.Against, b.Against))
	})
	return reports
}
