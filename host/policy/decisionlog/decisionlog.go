// Package decisionlog writes what policies answered to the log of the store, and reads it back to be asked again.
//
// Start with Rows and Read. A row is bounded in size whatever a module or a message does: what is larger than a log should keep is
// left out, and a replay that would need it says so. The package neither asks policies nor opens a store.
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

// Rows are the records of asked policies as rows of the log.
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

// Record is a row as the record that it was made from.
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

// Source is a log; a store is one, and so is a reader of it.
type Source interface {
	EachDecision(ctx context.Context, f journal.DecisionFilter) iter.Seq2[journal.Decision, error]
}

// Read goes over the decisions of policies. Rows of the static table and of the host's own rules are left out. A row whose
// host calls are damaged comes without its frame, so that it cannot be mistaken for one that can be asked again.
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
