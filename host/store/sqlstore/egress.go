package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/egress"
)

// keptEgress bounds the kept records, at most about 100 MB.
const keptEgress = 500_000

// AddEgress implements egress.Records. Beyond keptEgress it deletes the oldest.
func (s *Store) AddEgress(ctx context.Context, rs []egress.Record) error {
	err := s.writer.write(ctx, func(w *writer) error {
		for _, r := range rs {
			err := w.exec(`INSERT INTO egress (id, at, kind, session, agent, method, host, port, addrs, allowed, reason, credential, up, down, ended)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT (id) DO UPDATE SET up = excluded.up, down = excluded.down, ended = excluded.ended`,
				r.ID, nanos(r.At), r.Kind, r.Session, r.Agent, r.Method, r.Host, int64(r.Port), strings.Join(r.Addrs, " "), r.Allowed, r.Reason,
				r.Credential, r.Up, r.Down, nanos(r.Ended))
			if err != nil {
				return err
			}
		}
		return w.exec(`DELETE FROM egress WHERE seq <= (SELECT max(seq) FROM egress) - ?`, keptEgress)
	})
	if err != nil {
		return fmt.Errorf("add to the egress log: %w", err)
	}
	return nil
}

// ListEgress implements egress.Records.
func (s *Store) ListEgress(ctx context.Context, f egress.RecordFilter) ([]egress.Record, error) {
	return listEgress(ctx, s.read, f)
}

func listEgress(ctx context.Context, db Reads, f egress.RecordFilter) ([]egress.Record, error) {
	if f.Limit <= 0 {
		f.Limit = 1000
	}
	scopes, err := scopesWith(ctx, db, f.Person)
	if err != nil {
		return nil, err
	}
	latest, err := list(ctx, db, scanEgress, `SELECT id, at, kind, session, agent, method, host, port, addrs, allowed, reason, credential, up, down, ended
		FROM egress WHERE (?1 = '' OR session = ?1) AND (NOT ?2 OR NOT allowed) AND at >= ?3 AND (?5 = '' OR agent = ?5)
			AND (?6 = '' OR seq < (SELECT seq FROM egress WHERE id = ?6)) 
			AND (?7 = '' OR EXISTS (SELECT 1 FROM json_each(CAST(?8 AS TEXT)) s WHERE session >= s.value || ':' AND session < s.value || ';'
				AND instr(substr(session, length(s.value) + 2), ':') = 0)) ORDER BY seq DESC LIMIT ?4`,
		f.Session, f.Denied, nanos(f.Since), f.Limit, f.Agent, f.Before, f.Person, string(scopes))
	slices.Reverse(latest)
	return latest, err
}

// scopesWith returns the conversation scopes in which a sender took part, as JSON.
func scopesWith(ctx context.Context, db Reads, sender message.SenderKey) ([]byte, error) {
	scopes := []string{}
	if sender != "" {
		sessions, err := list(ctx, db, scanText[message.SessionKey], "SELECT DISTINCT session FROM turns WHERE sender = ?", sender)
		if err != nil {
			return nil, err
		}
		for _, s := range sessions {
			if scope := s.Parse().Scope; !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	return jsonform.Marshal(scopes)
}

func scanEgress(scan func(...any) error) (egress.Record, error) {
	var r egress.Record
	var at, ended, port int64
	var addrs string
	err := scan(&r.ID, &at, &r.Kind, &r.Session, &r.Agent, &r.Method, &r.Host, &port, &addrs, &r.Allowed, &r.Reason, &r.Credential, &r.Up, &r.Down, &ended)
	r.At, r.Ended, r.Port, r.Addrs = instant(at), instant(ended), uint16(port), strings.Fields(addrs)
	return r, err
}

// ListEgress implements the method of egress.Records for reading.
func (r *Reader) ListEgress(ctx context.Context, f egress.RecordFilter) ([]egress.Record, error) {
	if r.version < egressVersion {
		return nil, nil // no host has written any yet
	}
	return listEgress(ctx, r.db, f)
}

// egressVersion is the first schema version with the table.
const egressVersion = 2
