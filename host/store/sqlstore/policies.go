package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
)

// keptChanges bounds the kept changes of one policy. The archive keeps the modules that they name.
const keptChanges = 200

// AddPolicyModule implements journal.Changes.
func (s *Store) AddPolicyModule(ctx context.Context, m journal.Module) error {
	err := s.writer.write(ctx, func(w *writer) error {
		return w.exec(`INSERT INTO policy_modules (digest, file, policy, version, source, at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (digest) DO NOTHING`, m.Digest, m.File, m.Policy, m.Version, m.Source, nanos(m.At))
	})
	if err != nil {
		return fmt.Errorf("add a policy's module: %w", err)
	}
	return nil
}

// PolicyModule implements journal.Changes.
func (s *Store) PolicyModule(ctx context.Context, digest string) (journal.Module, error) {
	found, err := list(ctx, s.read, func(scan func(...any) error) (journal.Module, error) {
		var m journal.Module
		var at int64
		err := scan(&m.Digest, &m.File, &m.Policy, &m.Version, &m.Source, &at)
		m.At = instant(at)
		return m, err
	}, `SELECT digest, file, policy, version, source, at FROM policy_modules WHERE digest = ?`, digest)
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return journal.Module{}, fmt.Errorf("read the policy's module %s: %w", digest, err)
	}
	return found[0], nil
}

// AddPolicyChange implements journal.Changes.
func (s *Store) AddPolicyChange(ctx context.Context, c journal.Change) error {
	err := s.writer.write(ctx, func(w *writer) error {
		n, err := w.changed(`INSERT INTO policy_history
				(at, policy, path, outcome, file, digest, version, source, over, now_file, now_digest, who, reason)
			SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13 WHERE NOT EXISTS (
				SELECT 1 FROM policy_history WHERE id = (SELECT max(id) FROM policy_history WHERE policy = ?2) AND outcome = ?4 AND file = ?5
					AND digest = ?6 AND over = ?9 AND now_file = ?10 AND now_digest = ?11 AND reason = ?13)`,
			nanos(c.At), c.Policy, c.Path, c.Outcome, c.File, c.Digest, c.Version, c.Source, c.Over, c.NowFile, c.NowDigest, c.By, c.Reason)
		if err != nil || n == 0 {
			return err
		}
		return w.exec(`DELETE FROM policy_history WHERE policy = ?1 AND id <= (
			SELECT id FROM policy_history WHERE policy = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`, c.Policy, keptChanges)
	})
	if err != nil {
		return fmt.Errorf("add to a policy's history: %w", err)
	}
	return nil
}

// ListPolicyChanges implements journal.Changes.
func (s *Store) ListPolicyChanges(ctx context.Context, f journal.ChangeFilter) ([]journal.Change, error) {
	return listPolicyChanges(ctx, s.read, f)
}

func listPolicyChanges(ctx context.Context, db Reads, f journal.ChangeFilter) ([]journal.Change, error) {
	if f.Limit <= 0 {
		f.Limit = 1000
	}
	latest, err := list(ctx, db, scanPolicyChange, `SELECT id, at, policy, path, outcome, file, digest, version, source, over, now_file, now_digest,
		who, reason FROM policy_history WHERE ?1 = '' OR policy = ?1 ORDER BY id DESC LIMIT ?2`, f.Policy, f.Limit)
	slices.Reverse(latest)
	return latest, err
}

func scanPolicyChange(scan func(...any) error) (journal.Change, error) {
	var c journal.Change
	var at int64
	err := scan(&c.ID, &at, &c.Policy, &c.Path, &c.Outcome, &c.File, &c.Digest, &c.Version, &c.Source, &c.Over, &c.NowFile, &c.NowDigest,
		&c.By, &c.Reason)
	c.At = instant(at)
	return c, err
}

// LatestDecisionsSince implements journal.Changes.
func (s *Store) LatestDecisionsSince(ctx context.Context, policy string, n int) (time.Time, error) {
	var at sql.NullInt64
	err := s.read.Row(ctx, `SELECT min(at) FROM (SELECT at FROM decisions WHERE policy = ? ORDER BY at DESC LIMIT ?) AS latest`, policy, n).Scan(&at)
	if err != nil {
		return time.Time{}, fmt.Errorf("look for the latest decisions of policy %s: %w", policy, err)
	}
	return instant(at.Int64), nil
}

// PolicyFiles implements journal.Changes.
func (s *Store) PolicyFiles(ctx context.Context) ([]string, error) {
	return list(ctx, s.read, func(scan func(...any) error) (string, error) {
		var file string
		err := scan(&file)
		return file, err
	}, `SELECT file FROM policy_history WHERE file <> '' UNION SELECT now_file FROM policy_history WHERE now_file <> ''`)
}

// ListPolicyChanges implements the method of journal.Changes for reading.
func (r *Reader) ListPolicyChanges(ctx context.Context, f journal.ChangeFilter) ([]journal.Change, error) {
	if r.version < historyVersion {
		return nil, nil // no host has written any yet
	}
	return listPolicyChanges(ctx, r.db, f)
}

// historyVersion is the first schema version with the table.
const historyVersion = 4
