package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/compare"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/policy/journal"
)

// Replay selects recorded decisions, and the policies that make them again.
type Replay struct {
	// Candidate is the path of a module to use instead of the current one; every decision should stay the same.
	Candidate string
	// Policy is the name of the policy whose decisions are replayed. With a candidate it may be empty if there is only one policy.
	Policy       string
	Since, Until time.Time
	// Data overrides configured data of the policy, key by key.
	Data     map[string]string
	Examples int // of each group
}

// ReplayLog makes recorded decisions again, and returns a report for each policy.
func ReplayLog(ctx context.Context, c *config.Config, log decisionlog.Source, r Replay) (reports []compare.Report, err error) {
	sources, err := r.sources(c)
	if err != nil {
		return nil, err
	}
	for _, source := range sources {
		one, err := r.replay(ctx, log, source)
		if err != nil {
			return reports, fmt.Errorf("replay policy %s: %w", source.Name, err)
		}
		reports = append(reports, one)
	}
	return reports, nil
}

func (r *Replay) replay(ctx context.Context, log decisionlog.Source, source policy.Source) (report compare.Report, err error) {
	m, err := policy.Open(ctx, source)
	if err != nil {
		return compare.Report{}, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	exact := r.Candidate == "" && len(r.Data) == 0
	filter := journal.DecisionFilter{Policy: source.Name, Since: r.Since, Until: r.Until}
	return decisionlog.Replay(ctx, log, filter, m, compare.Options{Exact: exact, Examples: r.Examples})
}

// sources returns the policies to ask, as configured except for the changes of the replay.
func (r *Replay) sources(c *config.Config) ([]policy.Source, error) {
	// Shadows have no decisions in the log.
	sources := slices.DeleteFunc(configured.Sources(c, slog.Default()), func(s policy.Source) bool { return s.Shadow })
	if r.Policy == "" && r.Candidate == "" && len(r.Data) == 0 {
		return sources, nil
	}
	source, err := sourceNamed(sources, r.Policy)
	if err != nil {
		return nil, err
	}
	if r.Candidate != "" {
		source.Path = r.Candidate
	}
	if len(r.Data) > 0 {
		source.Data = maps.Clone(source.Data)
		if source.Data == nil {
			source.Data = map[string]string{}
		}
		maps.Copy(source.Data, r.Data)
	}
	return []policy.Source{source}, nil
}

// sourceNamed returns a policy; the name may be empty if there is only one.
func sourceNamed(sources []policy.Source, name string) (policy.Source, error) {
	var names []string
	for _, s := range sources {
		if s.Name == name || name == "" && len(sources) == 1 {
			return s, nil
		}
		names = append(names, s.Name)
	}
	switch {
	case len(names) == 0:
		return policy.Source{}, errors.New("the configuration has no policies")
	case name == "":
		return policy.Source{}, fmt.Errorf("choose the policy whose decisions to replay: --policy %s", strings.Join(names, ", or --policy "))
	}
	slices.Sort(names)
	return policy.Source{}, fmt.Errorf("the configuration has no policy %q; it has %s", name, strings.Join(names, ", "))
}

// RecordedDecision returns a decision of a log, and its policy as it is configured now: with the current module or, if candidate is not
// empty, with that one.
func RecordedDecision(
	ctx context.Context, c *config.Config, log decisionlog.Source, id int64, candidate string,
) (policy.Record, policy.Source, error) {
	d, err := decisionNumbered(ctx, log, id)
	switch {
	case err != nil:
		return policy.Record{}, policy.Source{}, err
	case d.Kind != policy.KindRoute && d.Kind != policy.KindTool:
		return policy.Record{}, policy.Source{}, fmt.Errorf("decision %d is of kind %s; only those of policies can be explained", id, d.Kind)
	}
	source, err := sourceNamed(configured.Sources(c, slog.Default()), d.Policy)
	if err != nil {
		return policy.Record{}, source, fmt.Errorf("decision %d: %w", id, err)
	}
	if candidate != "" {
		source.Path = candidate
	}
	record, err := decisionlog.Record(&d)
	return record, source, err
}

func decisionNumbered(ctx context.Context, log decisionlog.Source, id int64) (journal.Decision, error) {
	for d, err := range log.EachDecision(ctx, journal.DecisionFilter{ID: id, Limit: 1}) {
		if err != nil {
			return d, fmt.Errorf("read the decision log: %w", err)
		}
		return d, nil
	}
	return journal.Decision{}, fmt.Errorf("the log has no decision %d", id)
}
