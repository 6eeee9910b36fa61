package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// Claim implements store.Owners.
func (s *Store) Claim(ctx context.Context, key store.OwnerKey) (o store.Owner, err error) {
	return s.obtain(ctx, key, "claim", (*writer).claim)
}

// Take implements store.Owners.
func (s *Store) Take(ctx context.Context, key store.OwnerKey) (o store.Owner, err error) {
	return s.obtain(ctx, key, "take", (*writer).seize)
}

func (s *Store) obtain(
	ctx context.Context, key store.OwnerKey, verb string, do func(*writer, store.OwnerKey, store.Owner) error,
) (store.Owner, error) {
	var o store.Owner // may still be written to when the context has ended
	err := s.writer.writeAlone(ctx, func(w *writer) (err error) {
		read := func(dest ...any) error { return w.row(selectOwner, []any{key, store.DefaultHost}, dest...) }
		if o, err = scanOwner(read); err != nil {
			return err
		}
		if err = do(w, key, o); err != nil {
			return err
		}
		if o, err = scanOwner(read); err == nil {
			o.Rest, err = w.rest(key)
		}
		return err
	})
	switch {
	case errors.Is(err, store.ErrOwned):
		return o, fmt.Errorf("%s %s: %w", verb, key, err)
	case err != nil:
		return store.Owner{}, fmt.Errorf("%s %s: %w", verb, key, err)
	}
	return o, nil
}

// isAlive selects hosts that are alive at a time, which is the only parameter.
const isAlive = "expires > ?1 AND (gone = 0 OR gone > ?1)"

// rest returns how long a previous owner of a key may still run what goes on without asking.
func (w *writer) rest(key store.OwnerKey) (time.Duration, error) {
	var until int64
	err := w.row("SELECT coalesce(max(rest), 0) FROM owners WHERE key = ?", []any{key}, &until)
	if err != nil || until == 0 {
		return 0, err
	}
	now, err := w.now()
	return max(0, time.Duration(until-now)), err
}

// claim makes the host the owner of a key unless a host that is alive owns it.
func (w *writer) claim(key store.OwnerKey, before store.Owner) error {
	if before.Host == w.own.Host {
		return nil
	}
	now, err := w.now()
	if err != nil {
		return err
	}
	var alive bool
	var idle store.Idle
	err = w.row("SELECT EXISTS (SELECT 1 FROM hosts WHERE "+isAlive+" AND id = ?2) OR (SELECT settles > ?1 FROM control), (SELECT "+idleCase(w.session.Dialect())+" FROM hosts h, control c WHERE h.id = ?3)",
		[]any{now, before.Host, w.own.Host}, &alive, &idle)
	switch {
	case err != nil:
		return err
	case alive:
		return fmt.Errorf("%s: %w", before.Host, store.ErrOwned)
	case idle != "":
		return &idleError{idle}
	}
	return w.seize(key, before)
}

// seize makes the host the owner of a key.
func (w *writer) seize(key store.OwnerKey, before store.Owner) error {
	w.over = append(w.over, func() { w.own.Read = false })
	if err := w.recordTakeover(key); err != nil {
		return err
	}
	err := w.exec(`INSERT INTO owners (key, host, epoch, rest)
		VALUES (?1, ?2, ?3 + 1 - (SELECT epoch FROM hosts WHERE id = ?2), coalesce((SELECT expires FROM hosts WHERE id = ?4 AND id <> ?2), 0))
		ON CONFLICT (key) DO UPDATE SET host = excluded.host, epoch = excluded.epoch,
		rest = CASE WHEN excluded.rest > owners.rest THEN excluded.rest ELSE owners.rest END`, key, w.own.Host, before.Epoch, before.Host)
	if err != nil || before.Host == w.own.Host {
		return err
	}
	return w.signal(before.Host, store.SignalLost, key, before.Epoch+1)
}

// summon has a key's owner take up what is being written for it: this host claims the key, or the host that owns it is sent a signal. A host
// that has no lease does neither.
func (w *writer) summon(key store.OwnerKey) error {
	if !w.own.Member || w.owns(key) == nil {
		return nil
	}
	if !w.alone {
		return errAlone
	}
	before, err := scanOwner(func(dest ...any) error { return w.row(selectOwner, []any{key, store.DefaultHost}, dest...) })
	if err == nil {
		err = w.claim(key, before)
	}
	switch {
	case errors.As(err, new(*idleError)):
		return w.signalOthers(store.SignalWork, key)
	case errors.Is(err, store.ErrOwned):
		return w.signal(before.Host, store.SignalWork, key, 0)
	}
	return err
}

// poke sends a signal to the owner of a key, unless that is this host.
func (w *writer) poke(kind store.SignalKind, key store.OwnerKey) error {
	if w.owns(key) == nil {
		return nil
	}
	host := store.DefaultHost
	if t, taken := w.own.Taken[key]; taken {
		host = t.Host
	}
	if host == "" {
		return w.signalOthers(kind, key) // this host claims it, too, unless it gets no keys
	}
	return w.signal(host, kind, key, 0)
}

// now returns the time by the clock of the store.
func (w *writer) now() (now int64, err error) {
	if w.session.Dialect() == SQLite {
		return time.Now().UnixNano(), nil
	}
	err = w.row("SELECT "+postgresNow, nil, &now)
	return now, err
}

const postgresNow = "CAST(extract(epoch FROM clock_timestamp()) * 1000000000 AS BIGINT)"

// signal leaves a signal for a host that has the store open.
func (w *writer) signal(host string, kind store.SignalKind, key store.OwnerKey, epoch int64) error {
	return w.exec("INSERT INTO signals (host, kind, key, epoch) SELECT id, ?, ?, ? FROM hosts WHERE id = ? AND expires > 0", kind, key, epoch, host)
}

// Release implements store.Owners. The epoch of a key that nobody has is that of its row alone, so that it stays as it was.
func (s *Store) Release(ctx context.Context, key store.OwnerKey) error {
	err := s.writer.writeAlone(ctx, func(w *writer) error {
		if w.owns(key) != nil {
			return nil
		}
		w.over = append(w.over, func() { w.own.Read = false })
		err := w.exec(`INSERT INTO owners (key, host, epoch) VALUES (?, '', ?)
			ON CONFLICT (key) DO UPDATE SET host = '', epoch = owners.epoch + excluded.epoch`, key, w.own.Epoch)
		var idle store.Idle
		if err == nil {
			err = w.row("SELECT "+idleOf(w.session.Dialect()), []any{w.own.Host}, &idle)
		}
		if err == nil && idle != "" {
			err = w.signalOthers(store.SignalWork, key)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("release %s: %w", key, err)
	}
	return nil
}

// Stop implements store.Owners.
func (s *Store) Stop(ctx context.Context, key store.OwnerKey) error {
	if err := s.writer.write(ctx, func(w *writer) error { return w.poke(store.SignalStop, key) }); err != nil {
		return fmt.Errorf("stop %s: %w", key, err)
	}
	return nil
}

// Leave implements store.Owners.
func (s *Store) Leave(ctx context.Context) error {
	err := s.writer.writeAlone(ctx, func(w *writer) error {
		now, err := w.now()
		if err != nil {
			return err
		}
		var begins int64
		if err := w.row("SELECT begins FROM hosts WHERE id = ?", []any{w.own.Host}, &begins); err != nil {
			return err
		}
		if begins > now { // its predecessor may still act
			return w.exec("UPDATE hosts SET expires = begins WHERE id = ?", w.own.Host)
		}
		w.over = append(w.over, func() { w.own.Read = false })
		err = w.exec("UPDATE owners SET host = '', epoch = epoch + ? WHERE host = ?", w.own.Epoch, w.own.Host)
		if err == nil {
			err = w.exec("UPDATE hosts SET expires = 0, begins = 0, since = ? WHERE id = ?", now, w.own.Host)
		}
		if err == nil {
			err = w.exec("DELETE FROM signals WHERE host = ?", w.own.Host)
		}
		if err == nil {
			err = w.signalOthers(store.SignalVacant, "")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("leave the store: %w", err)
	}
	return nil
}

// Renew implements store.Owners.
func (s *Store) Renew(ctx context.Context, l store.Lease) (store.Renewal, error) {
	var r store.Renewal // may still be written to when the context has ended
	err := s.writer.writeFirst(ctx, func(w *writer) error {
		if !w.own.Member {
			w.over = append(w.over, func() { w.own.Read = false })
		}
		now, err := w.now()
		if err == nil {
			err = w.agreeAlone(l, now)
		}
		if err == nil {
			err = w.exec(`UPDATE hosts SET expires = ?1, reach = ?2, gone = 0, term = ?8, address = ?3, version = ?4, digests = ?5,
				peer = ?9, fingerprint = ?10, proven = incarnation, shared = ?11, revision = ?12, follows = incarnation,
				since = CASE WHEN since = 0 THEN ?6 ELSE since END WHERE id = ?7`, now+int64(l.Term), int64(l.Reach), l.Address, l.Version, l.Digests, now, w.own.Host, int64(l.Term),
				l.Peer, l.Fingerprint, l.Shared, l.Revision)
		}
		for ids := range slices.Chunk(l.Heard, manyRows) {
			if err == nil {
				err = w.exec("DELETE FROM signals WHERE id IN (?"+strings.Repeat(", ?", len(ids)-1)+") AND host = ?", append(anys(ids), w.own.Host)...)
			}
		}
		for counts := range slices.Chunk(l.Counts, manyRows) {
			if err == nil {
				err = w.tell(counts)
			}
		}
		if err != nil {
			return err
		}
		var begins int64
		err = w.row("SELECT begins, generation, "+idleCase(w.session.Dialect())+" FROM hosts h, control c WHERE h.id = ?", []any{w.own.Host}, &begins, &r.Control, &r.Idle)
		if err != nil {
			return err
		}
		r.Wait = max(0, time.Duration(begins-now))
		r.Alive, err = rowsOf(w, scanText[string], "SELECT id FROM hosts WHERE "+isAlive+" ORDER BY id", now)
		if err != nil {
			return err
		}
		r.Signals, err = rowsOf(w, func(scan func(...any) error) (v store.Signal, err error) {
			err = scan(&v.ID, &v.Kind, &v.Key, &v.Epoch)
			return v, err
		}, "SELECT id, kind, key, epoch FROM signals WHERE host = ? ORDER BY id LIMIT 1000", w.own.Host)
		return err
	})
	if err != nil {
		return store.Renewal{}, fmt.Errorf("renew the lease: %w", err)
	}
	return r, nil
}

// manyRows is how many rows one statement writes or deletes.
const manyRows = 100

func anys[T any](list []T) (all []any) {
	for _, v := range list {
		all = append(all, v)
	}
	return all
}

// tell tells counts to the other hosts that are alive.
func (w *writer) tell(counts []store.Count) error {
	rows, args := "", []any{}
	for _, c := range counts {
		if rows != "" {
			rows += " UNION ALL "
		}
		rows += "SELECT CAST(? AS TEXT) AS of, CAST(? AS BIGINT) AS n"
		args = append(args, c.Of, c.N)
	}
	return w.exec("INSERT INTO signals (host, kind, key, epoch) SELECT h.id, '"+string(store.SignalCounted)+"', c.of, c.n FROM hosts h CROSS JOIN ("+rows+") c"+
		" WHERE h.expires > 0 AND h.id <> ?", append(args, w.own.Host)...)
}

// Signaled implements store.Owners.
func (s *Store) Signaled(ctx context.Context) (bool, error) {
	return one(ctx, s.read, func(scan func(...any) error) (is bool, err error) {
		err = scan(&is)
		return is, err
	}, "SELECT EXISTS (SELECT 1 FROM signals WHERE host = ? AND kind <> '"+string(store.SignalCounted)+"')", s.writer.own.Host)
}

// Ended has a host count as dead when its reach is over, if its connection with the store has ended. That is what ended reads, a query with
// the host as its parameter: it does so in a transaction that excludes those of all hosts, so that a renewal comes either before it, over
// the connection that is looked for, or after it, and then undoes it. The reach of a host that has just been started begins with the end of
// its predecessor's lease.
func (s *Store) Ended(ctx context.Context, host, ended string) error {
	err := s.writer.writeAlone(ctx, func(w *writer) error {
		var is bool
		if err := w.row(ended, []any{host}, &is); err != nil || !is {
			return err
		}
		now, err := w.now()
		if err != nil {
			return err
		}
		return w.exec("UPDATE hosts SET gone = CASE WHEN begins > ?1 + reach THEN begins ELSE ?1 + reach END WHERE id = ?2 AND gone = 0 AND reach > 0 AND expires > ?1", now, host)
	})
	if err != nil {
		return fmt.Errorf("note that host %s is gone: %w", host, err)
	}
	return nil
}
