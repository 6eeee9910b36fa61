package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// takeTime is how long a host that has voted for a revision may work with what was before, in nanoseconds.
const takeTime = int64(4 * time.Second)

// keptRevisions is how many revisions are kept.
const keptRevisions = 50

// Standing implements store.Revisions.
func (s *Store) Standing(ctx context.Context) (store.Standing, error) {
	st, err := one(ctx, s.read, func(scan func(...any) error) (st store.Standing, err error) {
		err = scan(&st.Own, &st.Agreed, &st.Open)
		return st, err
	}, `SELECT h.revision, c.revision, coalesce((SELECT max(r.number) FROM revisions r WHERE r.state = ?1
			AND NOT EXISTS (SELECT 1 FROM votes v WHERE v.revision = r.number AND v.host = h.id AND v.incarnation = h.incarnation)), 0)
		FROM hosts h CROSS JOIN control c WHERE h.id = ?2`, store.RevisionOpen, s.writer.own.Host)
	if err != nil {
		return st, fmt.Errorf("look for revisions of the configuration: %w", err)
	}
	return st, nil
}

// Revision implements store.Revisions.
func (s *Store) Revision(ctx context.Context, number int64) (store.Revision, error) {
	r, err := one(ctx, s.read, func(scan func(...any) error) (r store.Revision, err error) {
		err = scan(&r.Number, &r.Host, &r.Base, &r.Was, &r.Digest, &r.Before, &r.After, &r.State, &r.Reason)
		return r, err
	}, "SELECT number, host, base, was, digest, text_before, text_after, state, reason FROM revisions WHERE number = ?", number)
	if err == nil {
		r.Hosts, err = list(ctx, s.read, scanText[string], "SELECT host FROM votes WHERE revision = ? AND reason = '' ORDER BY host", number)
	}
	if err != nil {
		return r, fmt.Errorf("read revision %d of the configuration: %w", number, err)
	}
	return r, nil
}

// Propose implements store.Revisions.
func (s *Store) Propose(ctx context.Context, r store.Revision, within time.Duration) (store.Revision, error) {
	var number int64 // may still be written to when the context has ended, as conflict
	var conflict error
	err := s.writer.writeAlone(ctx, func(w *writer) (err error) {
		number, conflict = 0, nil
		number, err = w.propose(r, within)
		if errors.Is(err, store.ErrConflict) { // the one before may have been settled all the same
			err, conflict = nil, err
		}
		return err
	})
	if err == nil {
		err = conflict
	}
	switch {
	case err != nil:
		return store.Revision{}, fmt.Errorf("propose a revision of the configuration: %w", err)
	case number == 0:
		return store.Revision{}, nil
	}
	return s.Revision(ctx, number)
}

func (w *writer) propose(r store.Revision, within time.Duration) (number int64, err error) {
	now, err := w.now()
	if err != nil {
		return 0, err
	}
	if err := w.settleOpen(now); err != nil {
		return 0, err
	}
	busy, err := rowsOf(w, scanText[string], "SELECT host FROM revisions WHERE state = ?", store.RevisionOpen)
	if err != nil {
		return 0, err
	}
	if len(busy) > 0 {
		return 0, store.Conflict(fmt.Sprintf("the configuration is being changed at host %s: look at it when that has ended, and make the change again", busy[0]))
	}
	var agreed int64
	if err := w.row("SELECT revision FROM control", nil, &agreed); err != nil {
		return 0, err
	}
	if agreed != r.Base {
		return 0, store.Conflict("the configuration was changed at another host, and this one has yet to take that: look at it again, and make the change anew")
	}
	outside, err := w.outside(r.Was, now)
	if err != nil || outside {
		return 0, err
	}
	if err := w.insertRevision(&r, store.RevisionOpen, now+int64(within)); err != nil {
		return 0, err
	}
	if err := w.vote(r.Number, ""); err != nil {
		return 0, err
	}
	return r.Number, w.settleOpen(now)
}

// outside reports whether the configuration of this host is not the one that the hosts agree on. A host that differs only by parts has the
// configuration of one that does not.
func (w *writer) outside(shared string, now int64) (is bool, err error) {
	err = w.row("SELECT ("+idleCase(w.session.Dialect())+") = ?3 AND NOT EXISTS (SELECT 1 FROM hosts WHERE "+isAlive+` AND id <> ?2 AND shared = ?4 AND digests = c.digests)
		FROM hosts h, control c WHERE h.id = ?2`, []any{now, w.own.Host, store.IdleDiffers, shared}, &is)
	return is, err
}

// insertRevision inserts a revision as the next one, and forgets old ones.
func (w *writer) insertRevision(r *store.Revision, state store.RevisionState, settles int64) error {
	err := w.row("SELECT coalesce(max(number), 0) + 1 FROM revisions", nil, &r.Number)
	if err == nil {
		err = w.exec("INSERT INTO revisions (number, host, base, was, digest, text_before, text_after, state, settles) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			r.Number, w.own.Host, r.Base, r.Was, r.Digest, append([]byte{}, r.Before...), append([]byte{}, r.After...), state, settles)
	}
	if err == nil {
		err = w.exec("DELETE FROM votes WHERE revision <= ?1 AND revision <> (SELECT revision FROM control)", r.Number-keptRevisions)
	}
	if err == nil {
		err = w.exec("DELETE FROM revisions WHERE number <= ?1 AND number <> (SELECT revision FROM control)", r.Number-keptRevisions)
	}
	return err
}

func (w *writer) vote(number int64, reason string) error {
	return w.exec(`INSERT INTO votes (revision, host, incarnation, reason) VALUES (?, ?, ?, ?)
		ON CONFLICT (revision, host) DO UPDATE SET incarnation = excluded.incarnation, reason = excluded.reason`, number, w.own.Host, w.own.Incarnation, reason)
}

// Vote implements store.Revisions.
func (s *Store) Vote(ctx context.Context, number int64, reason string) error {
	return s.settling(ctx, number, func(w *writer) error {
		var state store.RevisionState
		if err := w.row("SELECT state FROM revisions WHERE number = ?", []any{number}, &state); err != nil || state != store.RevisionOpen {
			return err
		}
		return w.vote(number, reason)
	})
}

// SettleRevision implements store.Revisions.
func (s *Store) SettleRevision(ctx context.Context, number int64) error {
	return s.settling(ctx, number, func(*writer) error { return nil })
}

func (s *Store) settling(ctx context.Context, number int64, do func(w *writer) error) error {
	err := s.writer.writeAlone(ctx, func(w *writer) error {
		now, err := w.now()
		if err == nil {
			err = do(w)
		}
		if err == nil {
			err = w.settleOpen(now)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("settle revision %d of the configuration: %w", number, err)
	}
	return nil
}

// settleOpen settles the open revision, if there is one and that can be done. The transaction excludes those of all hosts, so that none of them
// comes to life meanwhile.
func (w *writer) settleOpen(now int64) error {
	open, err := rowsOf(w, func(scan func(...any) error) (r [2]int64, err error) {
		err = scan(&r[0], &r[1])
		return r, err
	}, "SELECT number, settles FROM revisions WHERE state = ?", store.RevisionOpen)
	if err != nil || len(open) == 0 {
		return err
	}
	number, settles := open[0][0], open[0][1]
	against, err := rowsOf(w, scanText[string], "SELECT 'host ' || host || ': ' || reason FROM votes WHERE revision = ? AND reason <> '' ORDER BY host LIMIT 1", number)
	if err != nil {
		return err
	}
	// A host of the release before renews its lease without telling what it follows.
	cannot, err := rowsOf(w, scanText[string], "SELECT id FROM hosts WHERE "+isAlive+" AND proven = incarnation AND follows <> incarnation ORDER BY id", now)
	if err != nil {
		return err
	}
	silent, err := rowsOf(w, scanText[string], "SELECT id FROM hosts h WHERE "+isAlive+` AND NOT EXISTS (SELECT 1 FROM votes v
		WHERE v.revision = ?2 AND v.host = h.id AND v.incarnation = h.incarnation) ORDER BY id`, now, number)
	if err != nil {
		return err
	}
	reason := ""
	switch {
	case len(against) > 0:
		reason = against[0]
	case len(cannot) > 0:
		reason = fmt.Sprintf("host %s runs a Flynn that cannot take a change from another host: upgrade it first", strings.Join(cannot, ", "))
	case now >= settles:
		reason = "the time was over before all hosts had answered"
		if len(silent) > 0 {
			reason = fmt.Sprintf("host %s is alive and has not answered in time: flynn cluster status shows it", strings.Join(silent, ", "))
		}
	case len(silent) > 0:
		return nil
	default:
		return w.agreeOn(number, now+takeTime)
	}
	return w.exec("UPDATE revisions SET state = ?, reason = ? WHERE number = ?", store.RevisionRefused, reason, number)
}

// agreeOn makes a revision the one that all hosts have to take. The first that has taken it tells the digests of all.
func (w *writer) agreeOn(number, takenBy int64) error {
	err := w.exec("UPDATE revisions SET state = ? WHERE number = ?", store.RevisionAgreed, number)
	if err == nil {
		err = w.exec("UPDATE control SET revision = ?, taken_by = ?, digests = '', superseded = ''", number, takenBy)
	}
	return err
}

// Agree implements store.Members.
func (s *Store) Agree(ctx context.Context, r store.Revision) (int64, error) {
	err := s.writer.writeAlone(ctx, func(w *writer) error {
		err := w.exec("UPDATE revisions SET state = ?, reason = ? WHERE state = ?", store.RevisionRefused, "host "+w.own.Host+" has made its configuration that of all hosts", store.RevisionOpen)
		if err == nil {
			err = w.insertRevision(&r, store.RevisionOpen, 0)
		}
		if err == nil {
			err = w.agreeOn(r.Number, 0)
		}
		if err == nil {
			err = w.exec("UPDATE hosts SET revision = ? WHERE id = ?", r.Number, w.own.Host)
		}
		if err == nil {
			err = w.exec("UPDATE control SET digests = (SELECT digests FROM hosts WHERE id = ?)", w.own.Host)
		}
		if err == nil {
			err = w.exec("INSERT INTO signals (host, kind, key, epoch) SELECT id, ?, '', 0 FROM hosts WHERE expires > 0", store.SignalControl)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("agree on a configuration: %w", err)
	}
	return r.Number, nil
}
