// Package compare asks recorded decisions again and sums up what comes out differently.
//
// Start with Run, which goes over any number of decisions with a bounded memory and gives a Report: replay, the gate before a swap and
// shadow policies share it. The asking is that of package policy, the engine that decides live; this package only compares
// and counts. Decisions come from an iterator: where they are kept is not its business. A caller that has compared by other means
// counts with a Tally.
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

// Options of a Run. The zero value is fit for a candidate.
type Options struct {
	// Exact is for the very module that decided: every decision of it has to come out the same in answer, host calls and fuel.
	// Decisions of another module are left out, and counted.
	Exact bool
	// Workers ask side by side. GOMAXPROCS
	Workers int
	// Examples is how many decisions a group names: the first ones. 3
	Examples int
}

// batchSize is how many decisions go to a worker at a time.
const batchSize = 256

// Run asks the module every decision of the source again, each from the module's first state. An error of the source ends it.
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
			a := asker{module: m, exact: o.Exact, tally: NewTally(o.Examples)}
			a.run(ctx, batches)
			all.join(a.tally)
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
