package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// earlierModule finds the module to go back to in a policy's history: the one whose digest begins with to, or the latest in force
// that is not in force now and has not failed.
func earlierModule(changes []store.PolicyChange, name, to string) (string, error) {
	var files []string // that were in force, the latest first
	now, failed := "", map[string]bool{}
	if n := len(changes); n > 0 {
		now = changes[n-1].NowFile
	}
	for _, c := range slices.Backward(changes) {
		failed[c.File] = failed[c.File] || c.Outcome == string(policy.OutcomeReverted)
		if c.NowFile != "" && !slices.Contains(files, c.NowFile) {
			files = append(files, c.NowFile)
		}
	}
	if to == "" {
		for _, f := range files {
			if f != now && !failed[f] {
				return f, nil
			}
		}
		return "", policy.Unknownf("no earlier module of policy %s is known: flynn policy history %s lists those that were in force", name, name)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return !strings.HasPrefix(f, strings.ToLower(to)) })
	switch len(files) {
	case 0:
		return "", policy.Unknownf("no module %s of policy %s was ever in force: flynn policy history %s lists those that were", to, name, name)
	case 1:
		return files[0], nil
	}
	return "", policy.Unknownf("%d modules of policy %s begin with %s: write more of the digest", len(files), name, to)
}

// RollbackPolicy goes back to an older module of a policy while no host runs; it takes effect at the next start.
func RollbackPolicy(ctx context.Context, c *config.Config, name string, r gateway.Rollback) (row store.PolicyChange, err error) {
	i := slices.IndexFunc(c.Policies, func(p config.Policy) bool { return p.Name == name })
	if i < 0 {
		return row, fmt.Errorf("no policy %q is configured: see [[policies]] in %s", name, c.Path)
	}
	s, err := sqlite.Open(ctx, c.Store.Dir)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	changes, err := s.ListPolicyChanges(ctx, store.PolicyFilter{Policy: name})
	if err != nil {
		return row, err
	}
	if row, err = planRollback(c, changes, c.Policies[i], r); err != nil {
		return row, err
	}
	ledger, err := openPolicyLedger(c.Store.Dir, s)
	if err != nil {
		return row, err
	}
	if !r.Clear {
		if _, err := ledger.Fetch(ctx, row.File); err != nil {
			return row, err
		}
	}
	return row, s.AddPolicyChange(ctx, row)
}

// planRollback is the change that the next start will find.
func planRollback(c *config.Config, changes []store.PolicyChange, p config.Policy, r gateway.Rollback) (store.PolicyChange, error) {
	row := store.PolicyChange{At: time.Now(), Policy: p.Name, Path: p.Path, By: policy.ByCommand}
	if r.Clear {
		if len(changes) == 0 || !slices.Contains(clearable(), changes[len(changes)-1].Outcome) {
			return row, fmt.Errorf("policy %s is not rolled back", p.Name)
		}
		last := changes[len(changes)-1]
		row.Outcome, row.NowFile, row.NowDigest = string(policy.OutcomeCleared), last.NowFile, last.NowDigest
		return row, nil
	}
	file, err := earlierModule(changes, p.Name, r.To)
	if err != nil {
		return row, err
	}
	over, err := fileInForce(c, p)
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

// clearable are the outcomes that hold a policy's file back.
func clearable() []string {
	return []string{string(policy.OutcomeRolledBack), string(policy.OutcomeReverted)}
}

// fileInForce is the SHA-256 of the module that the configuration would bring into force.
func fileInForce(c *config.Config, p config.Policy) (string, error) {
	if p.Policy == "" {
		return moduleDigest(p.Path)
	}
	_, digest, err := PolicyStore(c).Find(p.Policy)
	return digest, err
}

// moduleDigest is the SHA-256 of a policy's file.
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

// PoliciesAtRest are the policies of a configuration that no host runs, with how they were left.
func PoliciesAtRest(ctx context.Context, c *config.Config) ([]gateway.PolicyStatus, error) {
	out := []gateway.PolicyStatus{}
	for _, p := range c.Policies {
		s := gateway.PolicyStatus{Name: p.Name, Path: p.Path, Kinds: p.Kinds, State: "not running", OK: true, Shadow: p.Shadow, ShadowOf: p.ShadowOf}
		last, err := sqlite.ReadPolicyChanges(ctx, c.Store.Dir, store.PolicyFilter{Policy: p.Name, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(last) > 0 {
			s.Since, s.File, s.Digest = last[0].At, last[0].NowFile, last[0].NowDigest
			if last[0].File == last[0].NowFile {
				s.Version = last[0].Version
			}
			if last[0].Outcome == string(policy.OutcomeRolledBack) {
				s.Pinned = last[0].File
			}
			if s.Detail = last[0].Reason; s.Detail == "" && s.Pinned != "" {
				s.Detail = backend.Pinned(p.Name)
			}
		}
		out = append(out, s)
	}
	return out, nil
}
