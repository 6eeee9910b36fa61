package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/observe/shadowlog"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/policy/history"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// PolicyHistory returns the changes of policies, oldest first. A host may be running.
func PolicyHistory(ctx context.Context, c *config.Config, f journal.ChangeFilter) ([]journal.Change, error) {
	return read(ctx, c, func(r *sqlstore.Reader) ([]journal.Change, error) { return r.ListPolicyChanges(ctx, f) })
}

// Decisions calls do with the decision log. A host may be running.
func Decisions(ctx context.Context, c *config.Config, f journal.DecisionFilter, do func(iter.Seq2[journal.Decision, error]) error) error {
	_, err := read(ctx, c, func(r *sqlstore.Reader) (struct{}, error) { return struct{}{}, do(r.EachDecision(ctx, f)) })
	return err
}

// ShadowReports returns what shadow policies would have changed. A host may be running.
func ShadowReports(ctx context.Context, c *config.Config, f journal.ShadowFilter, examples int) ([]shadowlog.Report, error) {
	return read(ctx, c, func(r *sqlstore.Reader) ([]shadowlog.Report, error) { return shadowlog.Reports(ctx, r, f, examples) })
}

// Policies returns the policies of a configuration in the state in which the last host left them.
func Policies(ctx context.Context, c *config.Config) ([]gateway.PolicyStatus, error) {
	return read(ctx, c, func(r *sqlstore.Reader) ([]gateway.PolicyStatus, error) {
		out := []gateway.PolicyStatus{}
		for _, p := range c.Policies {
			last, err := r.ListPolicyChanges(ctx, journal.ChangeFilter{Policy: p.Name, Limit: 1})
			if err != nil {
				return nil, err
			}
			out = append(out, policyLeft(p, last))
		}
		return out, nil
	})
}

// policyLeft returns the status of a policy after its last change, if any.
func policyLeft(p config.Policy, last []journal.Change) gateway.PolicyStatus {
	s := gateway.PolicyStatus{Name: p.Name, Path: p.Path, Kinds: p.Kinds, State: "not running", OK: true, Shadow: p.Shadow, ShadowOf: p.ShadowOf}
	if len(last) == 0 {
		return s
	}
	s.Since, s.File, s.Digest = last[0].At, last[0].NowFile, last[0].NowDigest
	if last[0].File == last[0].NowFile {
		s.Version = last[0].Version
	}
	if last[0].Outcome == string(policy.OutcomeRolledBack) {
		s.Pinned = last[0].File
	}
	if s.Detail = last[0].Reason; s.Detail == "" && s.Pinned != "" {
		s.Detail = history.RolledBack(p.Name)
	}
	return s
}

// RollbackPolicy returns to an older module of a policy, from the next start on. It fails while a host runs.
func RollbackPolicy(ctx context.Context, c *config.Config, name string, r gateway.Rollback) (journal.Change, error) {
	i := slices.IndexFunc(c.Policies, func(p config.Policy) bool { return p.Name == name })
	if i < 0 {
		return journal.Change{}, fmt.Errorf("no policy %q is configured: see [[policies]] in %s", name, c.Path)
	}
	return change(ctx, c, func(s store.Store) (journal.Change, error) {
		changes, err := s.ListPolicyChanges(ctx, journal.ChangeFilter{Policy: name})
		if err != nil {
			return journal.Change{}, err
		}
		row, err := planRollback(ctx, c, changes, c.Policies[i], r)
		if err != nil {
			return row, err
		}
		past, err := history.Open(c.Store.Dir, s)
		if err != nil {
			return row, err
		}
		if !r.Clear {
			if _, err := past.Fetch(ctx, row.File); err != nil {
				return row, err
			}
		}
		return row, s.AddPolicyChange(ctx, row)
	})
}

// planRollback returns the change that the next start will apply.
func planRollback(ctx context.Context, c *config.Config, changes []journal.Change, p config.Policy, r gateway.Rollback) (journal.Change, error) {
	row := journal.Change{At: time.Now(), Policy: p.Name, Path: p.Path, By: policy.ByCommand}
	if r.Clear {
		if len(changes) == 0 || !slices.Contains(clearable(), changes[len(changes)-1].Outcome) {
			return row, fmt.Errorf("policy %s is not rolled back", p.Name)
		}
		last := changes[len(changes)-1]
		row.Outcome, row.NowFile, row.NowDigest = string(policy.OutcomeCleared), last.NowFile, last.NowDigest
		return row, nil
	}
	file, err := history.Earlier(changes, p.Name, r.To)
	if err != nil {
		return row, err
	}
	over, err := fileInForce(ctx, c, p)
	if err != nil {
		return row, err
	}
	row.Outcome, row.File, row.NowFile, row.Over = string(policy.OutcomeRolledBack), file, file, over
	for _, c := range changes {
		if c.File == file && c.Version != "" {
			row.Version, row.Source = c.Version, c.Source
		}
	}
	return row, nil
}

// clearable returns the outcomes that keep a policy's file from being used.
func clearable() []string {
	return []string{string(policy.OutcomeRolledBack), string(policy.OutcomeReverted)}
}

// fileInForce returns the SHA-256 of the module that the configuration would use.
func fileInForce(ctx context.Context, c *config.Config, p config.Policy) (string, error) {
	if p.Policy == "" {
		return moduleDigest(p.Path)
	}
	_, digest, err := configured.Find(ctx, c, slog.Default(), p.Policy)
	return digest, err
}

// moduleDigest returns the SHA-256 of a policy's file.
func moduleDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
