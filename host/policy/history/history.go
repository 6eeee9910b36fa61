// Package history remembers over restarts which modules of policies were in force. The changes are in the store, the modules in an archive
// on disk.
//
// Start with Open for the History of the policy engine, and with Earlier for the module that a roll-back goes back to. The package does not
// put a module in force: package policy does.
package history

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
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/sdk/cut"
)

// Log implements policy.History.
type Log struct {
	store   journal.Changes
	archive *archive.Archive
}

var _ policy.History = (*Log)(nil)

// Open opens the archive in the store's folder.
func Open(dir string, s journal.Changes) (*Log, error) {
	a, err := archive.Open(filepath.Join(dir, "policies", "modules"))
	return &Log{s, a}, err
}

// archiveAge is how long a module is kept that never came into force.
const archiveAge = 24 * time.Hour

// Prune drops from the archive the modules that no change names any more.
func (l *Log) Prune(ctx context.Context) error {
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

// Recall implements policy.History.
func (l *Log) Recall(ctx context.Context, name string) (policy.Past, error) {
	last, err := l.store.ListPolicyChanges(ctx, journal.ChangeFilter{Policy: name, Limit: 1})
	if err != nil || len(last) == 0 {
		return policy.Past{}, err
	}
	c := last[0]
	return policy.Change{
		Outcome: policy.Outcome(c.Outcome), File: c.File, Digest: c.Digest, Over: c.Over, NowFile: c.NowFile, NowDigest: c.NowDigest,
	}.Leaves(), nil
}

// Keep implements policy.History.
func (l *Log) Keep(ctx context.Context, c policy.Candidate) error {
	file, err := l.archive.Put(c.Wasm)
	if err != nil {
		return err
	}
	about, _ := author.About(c.Source.Path)
	source := about.Source
	if about.Digest != file {
		source = "" // that of another module
	}
	return l.store.AddPolicyModule(ctx, journal.Module{
		Digest: c.Digest(), File: file, Policy: c.Source.Name, Version: about.Version, Source: source, At: time.Now(),
	})
}

// Fetch implements policy.History.
func (l *Log) Fetch(_ context.Context, file string) ([]byte, error) {
	return l.archive.Get(file)
}

// Record implements policy.History.
func (l *Log) Record(ctx context.Context, c policy.Change) error {
	row := journal.Change{
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

// maxReason bounds the reason of a refusal in the history, in bytes: it may hold a stack.
const maxReason = 2000

func clipped(s string) string { return strings.ToValidUTF8(cut.Head(s, maxReason), "") }
