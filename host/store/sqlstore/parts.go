package sqlstore

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/store"
)

// Parts implements store.Parts.
func (s *Store) Parts(ctx context.Context) (all []store.Part, revision int64, err error) {
	// The revision is read first: a change in between belongs to a later one, and is looked at again.
	err = s.read.Row(ctx, "SELECT parts FROM control").Scan(&revision)
	if err == nil {
		all, err = list(ctx, s.read, func(scan func(...any) error) (p store.Part, err error) {
			err = scan(&p.Kind, &p.Name, &p.Body, &p.Host, &p.Revision)
			return p, err
		}, "SELECT kind, name, body, host, revision FROM parts ORDER BY kind, name")
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list the parts that the hosts agree on: %w", err)
	}
	return all, revision, nil
}

// SetPart implements store.Parts.
func (s *Store) SetPart(ctx context.Context, p store.Part) (int64, error) {
	var revision int64 // may still be written to when the context has ended
	err := s.writer.write(ctx, func(w *writer) error {
		if err := w.exec("UPDATE control SET parts = parts + 1"); err != nil { // other hosts wait for it
			return err
		}
		if err := w.row("SELECT parts FROM control", nil, &revision); err != nil {
			return err
		}
		body := append([]byte{}, p.Body...)
		if p.Revision > 0 {
			return w.changeOne("UPDATE parts SET body = ?, host = ?, revision = ? WHERE kind = ? AND name = ? AND revision = ?", body, w.own.Host, revision, p.Kind, p.Name, p.Revision)
		}
		return w.changeOne("INSERT INTO parts (kind, name, body, host, revision) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", p.Kind, p.Name, body, w.own.Host, revision)
	})
	if err != nil {
		return 0, fmt.Errorf("change %s %s for all hosts: %w", p.Kind, p.Name, err)
	}
	return revision, nil
}

// maxSuperseded bounds the digests that are remembered, in bytes: those of the last 20 changes.
const maxSuperseded = 20 * 65

// Follow implements store.Parts.
func (s *Store) Follow(ctx context.Context, before, digests string, revision int64) error {
	err := s.writer.write(ctx, func(w *writer) error {
		return w.exec(`UPDATE control SET superseded = substr(digests || ' ' || superseded, 1, ?4), digests = ?2
			WHERE parts = ?3 AND ?1 <> '' AND digests <> ?2 AND instr(superseded, ?2) = 0 AND (digests = ?1 OR instr(superseded, ?1) > 0)`,
			before, digests, revision, maxSuperseded)
	})
	if err != nil {
		return fmt.Errorf("agree on changed policies and plugins: %w", err)
	}
	return nil
}
