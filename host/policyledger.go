package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/archive"
	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/host/store"
)

// policyLedger is the memory of the engine of policies: the history is in the store, the modules are in the archive.
type policyLedger struct {
	store   store.Policies
	archive *archive.Archive
}

var _ policy.Ledger = (*policyLedger)(nil)

// openPolicyLedger opens the archive in the store's folder.
func openPolicyLedger(dir string, s store.Policies) (*policyLedger, error) {
	a, err := archive.Open(filepath.Join(dir, "policies", "modules"))
	return &policyLedger{s, a}, err
}

// prune drops from the archive what no history names any more.
func (l *policyLedger) prune(ctx context.Context) error {
	files, err := l.store.PolicyFiles(ctx)
	if err != nil {
		return fmt.Errorf("read which modules the history of policies names: %w", err)
	}
	named := map[string]bool{}
	for _, f := range files {
		named[f] = true
	}
	return l.archive.Prune(archiveAge, func(digest string) bool { return named[digest] })
}

// archiveAge is how long a module is kept that never came into force.
const archiveAge = 24 * time.Hour

// Recall implements policy.Ledger.
func (l *policyLedger) Recall(ctx context.Context, name string) (policy.Past, error) {
	last, err := l.store.ListPolicyChanges(ctx, store.PolicyFilter{Policy: name, Limit: 1})
	if err != nil || len(last) == 0 {
		return policy.Past{}, err
	}
	c := last[0]
	return policy.Change{
		Outcome: policy.Outcome(c.Outcome), File: c.File, Digest: c.Digest, Over: c.Over, NowFile: c.NowFile, NowDigest: c.NowDigest,
	}.Leaves(), nil
}

// Keep implements policy.Ledger.
func (l *policyLedger) Keep(ctx context.Context, c policy.Candidate) error {
	file, err := l.archive.Put(c.Wasm)
	if err != nil {
		return err
	}
	about, _ := author.About(c.Source.Path)
	source := about.Source
	if about.Digest != file {
		source = "" // that of another module
	}
	return l.store.AddPolicyModule(ctx, store.PolicyModule{
		Digest: c.Digest(), File: file, Policy: c.Source.Name, Version: about.Version, Source: source, At: time.Now(),
	})
}

// Fetch implements policy.Ledger.
func (l *policyLedger) Fetch(_ context.Context, file string) ([]byte, error) {
	return l.archive.Get(file)
}

// Record implements policy.Ledger.
func (l *policyLedger) Record(ctx context.Context, c policy.Change) error {
	row := store.PolicyChange{
		At: c.At, Policy: c.Policy, Path: c.Path, Outcome: string(c.Outcome), File: c.File, Digest: c.Digest, Over: c.Over,
		NowFile: c.NowFile, NowDigest: c.NowDigest, By: c.By, Reason: clipped(c.Reason),
	}
	if m, err := l.store.PolicyModule(ctx, c.Digest); err == nil {
		row.Version, row.Source = m.Version, m.Source
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return l.store.AddPolicyChange(ctx, row)
}

// maxReason bounds a refusal's words in the history, in bytes: they may hold a stack.
const maxReason = 2000

func clipped(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxReason)], "") }
