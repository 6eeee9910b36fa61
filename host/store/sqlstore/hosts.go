package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// idleCase is the store.Idle of host h under control c. A host with digests that were superseded works on while no other could, and one that has
// voted for a revision of the configuration has a moment to take it. Until a host has told the digests with the revision, the number counts.
func idleCase(d Dialect) string {
	now := "CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER) * 1000000"
	if d == Postgres {
		now = postgresNow
	}
	return `CASE WHEN h.drained > 0 THEN 'drained'
		WHEN c.taken_by > ` + now + ` AND EXISTS (SELECT 1 FROM votes v WHERE v.revision = c.revision AND v.host = h.id AND v.incarnation = h.incarnation AND v.reason = '') THEN ''
		WHEN h.revision <> c.revision AND h.follows = h.incarnation THEN 'differs' WHEN h.digests <> c.digests AND h.digests <> '' AND c.digests <> '' AND NOT (instr(c.superseded, h.digests) > 0
		AND NOT EXISTS (SELECT 1 FROM hosts o WHERE o.digests = c.digests AND o.drained = 0 AND o.expires > ` + now + ` AND (o.gone = 0 OR o.gone > ` + now + `)))
		THEN 'differs' ELSE '' END`
}

// idleOf selects the store.Idle of a host.
func idleOf(d Dialect) string {
	return "(SELECT " + idleCase(d) + " FROM hosts h, control c WHERE h.id = ?)"
}

// idleError refuses a key to a host that gets none.
type idleError struct{ why store.Idle }

func (e *idleError) Error() string {
	if e.why == store.IdleDrained {
		return "this host is drained"
	}
	return "this host runs with another configuration than the others"
}

// Is makes the key one for other hosts.
func (e *idleError) Is(target error) bool { return target == store.ErrOwned }

// signalOthers leaves a signal for all other hosts that have the store open.
func (w *writer) signalOthers(kind store.SignalKind, key store.OwnerKey) error {
	return w.exec("INSERT INTO signals (host, kind, key, epoch) SELECT id, ?, ?, 0 FROM hosts WHERE expires > 0 AND id <> ?", kind, key, w.own.Host)
}

const (
	minute        = int64(time.Minute)
	keptTakeovers = 100
)

// recordTakeover records that the host takes a key of another one. The transaction is exclusive, so that what is known of the key is true.
func (w *writer) recordTakeover(key store.OwnerKey) error {
	t, taken := w.own.Taken[key]
	if !taken || t.Host == "" || t.Host == w.own.Host {
		return nil
	}
	now, err := w.now()
	if err == nil {
		err = w.exec(`INSERT INTO takeovers (host, lost_by, minute, latest, keys) VALUES (?, ?, ?, ?, 1)
			ON CONFLICT (host, lost_by, minute) DO UPDATE SET latest = excluded.latest, keys = takeovers.keys + 1`, w.own.Host, t.Host, now/minute, now)
	}
	if err == nil {
		err = w.exec("DELETE FROM takeovers WHERE latest < (SELECT latest FROM takeovers ORDER BY latest DESC LIMIT 1 OFFSET ?)", keptTakeovers-1)
	}
	return err
}

// agreeAlone makes new digests of the host those of all hosts if no other is alive and it starts or had the digests of all before. A host that has
// yet to take a revision of the configuration decides nothing.
func (w *writer) agreeAlone(l store.Lease, now int64) error {
	return w.exec(`UPDATE control SET digests = ?1, superseded = '' WHERE digests <> ?1 AND ?1 <> '' AND revision = ?4 AND (digests = '' OR
		NOT EXISTS (SELECT 1 FROM hosts h WHERE h.id <> ?2 AND h.expires > ?3)
		AND EXISTS (SELECT 1 FROM hosts h WHERE h.id = ?2 AND (h.since = 0 OR h.digests = control.digests)))`, l.Digests, w.own.Host, now, l.Revision)
}

// Drain implements store.Members.
func (s *Store) Drain(ctx context.Context, host string, drained bool) error {
	flag := 0
	if drained {
		flag = 1
	}
	err := s.writer.write(ctx, func(w *writer) error {
		n, err := w.changed("UPDATE hosts SET drained = ? WHERE id = ?", flag, host)
		if err == nil && n == 0 {
			err = store.ErrNotFound
		}
		if err == nil {
			err = w.signal(host, store.SignalControl, "", 0)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("drain host %q: %w", host, err)
	}
	return nil
}

// Remove implements store.Members.
func (s *Store) Remove(ctx context.Context, host string) error {
	err := s.writer.writeAlone(ctx, func(w *writer) error {
		now, err := w.now()
		if err != nil {
			return err
		}
		var epoch, until int64
		switch err := w.row("SELECT epoch, CASE WHEN expires > begins THEN expires ELSE begins END FROM hosts WHERE id = ?", []any{host}, &epoch, &until); {
		case errors.Is(err, sql.ErrNoRows):
			return store.ErrNotFound
		case err != nil:
			return err
		case until > now || host == w.own.Host:
			return store.ErrOwned
		}
		w.over = append(w.over, func() { w.own.Read = false })
		err = w.exec("UPDATE owners SET host = '', epoch = epoch + ? WHERE host = ?", epoch, host)
		if err == nil {
			err = w.exec("DELETE FROM signals WHERE host = ?", host)
		}
		if err == nil {
			err = w.exec("DELETE FROM hosts WHERE id = ?", host)
		}
		if err == nil {
			err = w.exec("INSERT INTO signals (host, kind, key, epoch) SELECT id, ?, '', 0 FROM hosts WHERE expires > 0", store.SignalVacant)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove host %q: %w", host, err)
	}
	return nil
}

// alive selects rows h of hosts that are alive now.
func (s *Store) alive() string {
	now := fmt.Sprint(time.Now().UnixNano())
	if s.read.Dialect() == Postgres {
		now = postgresNow
	}
	return "(h.expires > " + now + " AND (h.gone = 0 OR h.gone > " + now + "))"
}

// Peers implements store.Members.
func (s *Store) Peers(ctx context.Context) ([]store.Peer, error) {
	peers, err := list(ctx, s.read, func(scan func(...any) error) (p store.Peer, err error) {
		err = scan(&p.Host, &p.Incarnation, &p.Address, &p.Fingerprint)
		return p, err
	}, "SELECT h.id, h.incarnation, h.peer, h.fingerprint FROM hosts h WHERE h.fingerprint <> '' AND h.proven = h.incarnation AND "+s.alive()+" ORDER BY h.id")
	if err != nil {
		return nil, fmt.Errorf("list the hosts that listen for others: %w", err)
	}
	return peers, nil
}

// Hosts implements store.Members.
func (s *Store) Hosts(ctx context.Context) ([]store.HostState, error) {
	alive := s.alive()
	hosts, err := list(ctx, s.read, func(scan func(...any) error) (h store.HostState, err error) {
		var since int64
		err = scan(&h.ID, &h.Address, &h.Version, &h.Digests, &h.Peer, &h.Alive, &since, &h.Idle, &h.Conversations, &h.Channels, &h.Singletons)
		h.Since, h.Self = instant(since), h.ID == s.writer.own.Host
		return h, err
	}, `SELECT h.id, h.address, h.version, h.digests, CASE WHEN h.proven = h.incarnation THEN h.peer ELSE '' END, `+alive+`, CASE WHEN `+alive+` OR h.expires = 0 THEN h.since WHEN h.gone > 0 AND h.gone < h.expires THEN h.gone ELSE h.expires END, `+idleCase(s.read.Dialect())+`,
		coalesce(o.conversations, 0), coalesce(o.channels, 0), coalesce(o.every - o.conversations - o.channels, 0)
		FROM hosts h CROSS JOIN control c LEFT JOIN (SELECT host, count(*) AS every, sum(CASE WHEN key LIKE 'conversation %' THEN 1 ELSE 0 END) AS conversations,
			sum(CASE WHEN key LIKE 'channel %' THEN 1 ELSE 0 END) AS channels FROM owners GROUP BY host) o ON o.host = h.id WHERE h.incarnation <> '' ORDER BY h.id`)
	if err != nil {
		return nil, fmt.Errorf("list the hosts: %w", err)
	}
	return hosts, nil
}

// Takeovers implements store.Members.
func (s *Store) Takeovers(ctx context.Context, limit int) ([]store.Takeover, error) {
	return list(ctx, s.read, func(scan func(...any) error) (t store.Takeover, err error) {
		var latest int64
		err = scan(&t.Host, &t.From, &latest, &t.Keys)
		t.Last = instant(latest)
		return t, err
	}, "SELECT host, lost_by, latest, keys FROM takeovers ORDER BY latest DESC, host, lost_by LIMIT ?", limit)
}
