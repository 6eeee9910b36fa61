// Package decisionlog converts the decisions of policies to rows of the store's log, and reads them back for a replay.
//
// Start with Rows, Read and Replay. The size of a row is bounded: larger values are left out, and a replay that needs one reports that. The
// package neither loads policies nor opens a store.
package decisionlog

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/compare"
	"github.com/flynnhost/flynn/host/policy/journal"
)

// Bounds of a row, in bytes. Frames, reasons and errors are bounded where they are made.
const (
	maxText = 256 << 10
	maxArgs = 256 << 10
)

// Rows returns records as rows of the log.
func Rows(at time.Time, records []policy.Record) []journal.Decision {
	ds := make([]journal.Decision, 0, len(records))
	for i := range records {
		ds = append(ds, row(at, &records[i]))
	}
	return ds
}

func row(at time.Time, r *policy.Record) journal.Decision {
	calls, _ := jsonform.Marshal(policy.TrimCalls(r.Calls)) // plain bytes and numbers
	d := journal.Decision{
		At: at, Kind: r.Kind, Policy: r.Policy, Digest: r.Digest, File: r.File, Frame: r.Frame, Calls: calls, Raw: r.Raw, Rule: r.Rule,
		Answer: r.Answer, Reason: r.Reason, Error: r.Error, Fuel: r.Fuel, Nanos: int64(r.Took),
	}
	if len(r.Text) <= maxText {
		d.Text = r.Text
	}
	if len(r.Args) <= maxArgs {
		d.Args = r.Args
	}
	return d
}

// Record returns the record of a row.
func Record(d *journal.Decision) (policy.Record, error) {
	r := policy.Record{
		Policy: d.Policy, Digest: d.Digest, File: d.File, Kind: d.Kind, Frame: d.Frame, Text: d.Text, Args: d.Args, Raw: d.Raw, Rule: d.Rule,
		Answer: d.Answer, Reason: d.Reason, Error: d.Error, Fuel: d.Fuel, Took: time.Duration(d.Nanos),
	}
	if len(d.Calls) > 0 {
		if err := json.Unmarshal(d.Calls, &r.Calls); err != nil {
			return r, fmt.Errorf("decision %d: its host calls cannot be read: %w", d.ID, err)
		}
	}
	return r, nil
}

// Source is a decision log, such as a store.
type Source interface {
	EachDecision(ctx context.Context, f journal.DecisionFilter) iter.Seq2[journal.Decision, error]
}

// Read returns the decisions of policies, without the rows of the static table and of the host's own rules. A row whose
// host calls are damaged has no frame, so that it cannot be replayed.
func Read(ctx context.Context, log Source, f journal.DecisionFilter) iter.Seq2[compare.Decision, error] {
	return func(yield func(compare.Decision, error) bool) {
		for d, err := range log.EachDecision(ctx, f) {
			if err != nil {
				yield(compare.Decision{}, fmt.Errorf("read the decision log: %w", err))
				return
			}
			if d.Kind != policy.KindRoute && d.Kind != policy.KindTool {
				continue
			}
			r, err := Record(&d)
			if err != nil {
				r.Frame = nil
			}
			if !yield(compare.Decision{ID: d.ID, At: d.At, Record: r}, nil) {
				return
			}
		}
	}
}

// Replay asks a module the decisions of the log again, and counts those that come out differently. With the error that ended it comes the
// report about the decisions before.
func Replay(ctx context.Context, log Source, f journal.DecisionFilter, m *policy.Module, o compare.Options) (compare.Report, error) {
	f.WithoutCalls = !o.Exact
	return compare.Run(ctx, Read(ctx, log, f), m, o)
}
