// Package compare asks recorded decisions again and counts those that come out differently.
//
// Start with Run, which goes over any number of decisions in bounded memory and returns a Report. Replay, the gate before a swap and
// shadow policies use it. Package policy, the engine that decides live, asks; this package only compares and counts. Decisions come from
// an iterator, wherever they are stored. A caller that has compared by other means counts with a Tally.
package compare

import (
	"context"
	"iter"
	"runtime"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/policy"
)

// Decision is one recorded decision.
type Decision struct {
	ID int64 // in the log
	At time.Time
	policy.Record
}

// Options of a Run. The zero value is for a candidate.
type Options struct {
	// Exact is for the module that made the decisions: they have to come out the same in answer, host calls and fuel.
	// Decisions of another module are skipped.
	Exact bool
	// Workers is how many decisions are asked at a time; 0 is GOMAXPROCS.
	Workers int
	// Examples is how many decisions a group names, the first ones; 0 is 3.
	Examples int
}

// batchSize is how many decisions go to a worker at a time.
const batchSize = 256

// Run asks the module every decision of the source again, each from the module's first state. It ends with the first error of the source.
func Run(ctx context.Context, source iter.Seq2[Decision, error], m *policy.Module, o Options) (Report, error) {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	begin := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make(chan []Decision, o.Workers)
	var workers sync.WaitGroup
	all := NewTally(o.Examples)
	for range o.Workers {
		workers.Go(func() {
			a := asker{module: m, exact: o.Exact, tally: all}
			a.run(ctx, batches)
		})
	}
	err := feed(ctx, source, batches)
	close(batches)
	workers.Wait()
	r := all.Report()
	r.Policy, r.Digest, r.File, r.Exact = m.Name(), m.Digest(), m.File(), o.Exact
	r.Took = time.Since(begin)
	if err == nil {
		err = ctx.Err()
	}
	return r, err
}

// feed hands the decisions to the workers.
func feed(ctx context.Context, source iter.Seq2[Decision, error], batches chan<- []Decision) error {
	batch := make([]Decision, 0, batchSize)
	hand := func() bool {
		select {
		case batches <- batch:
			batch = make([]Decision, 0, batchSize)
			return true
		case <-ctx.Done():
			return false
		}
	}
	for d, err := range source {
		if err != nil {
			return err
		}
		if batch = append(batch, d); len(batch) == batchSize && !hand() {
			return ctx.Err()
		}
	}
	if len(batch) > 0 && !hand() {
		return ctx.Err()
	}
	return nil
}
