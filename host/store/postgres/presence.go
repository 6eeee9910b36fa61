package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flynnhost/flynn/host/store"
)

// One process at a time is a host. On a connection of its own it holds a lock, which the server releases when the process ends. Through a
// pooler, where no lock lasts longer than a transaction, it counts in its row of hosts; the count grows while it lives, so that no
// clock is needed. Both only keep two processes from taking the host from each other by mistake: what a process may write is decided by
// the fence.
//
// In the same way a host that has the database alone, and hosts that share it, exclude each other. They lock one more name, those that
// share it together; and the leases of these are looked at, which last a little longer than the locks.

const (
	// They lock the host, and the database for it alone or for those that share it.
	lockAlone   = "SELECT pg_try_advisory_lock(hashtextextended('flynn host ' || $1, 0)), pg_try_advisory_lock(hashtextextended('flynn alone', 0))"
	lockShared  = "SELECT pg_try_advisory_lock(hashtextextended('flynn host ' || $1, 0)), pg_try_advisory_lock_shared(hashtextextended('flynn alone', 0))"
	lockPause   = 10 * time.Millisecond
	countPeriod = time.Second
)

// A killed process has the lock until its server process notices; the next one waits that long.
const lockPatience = 2 * time.Second

// The errors of a host that another one excludes.
var (
	errInUse = fmt.Errorf("%w: stop it, or give this one another database; hosts that share one have a name each, in [cluster] host", store.ErrLocked)
	errNamed = fmt.Errorf("%w: another process is the host that [cluster] names: stop it, or give this one another name", store.ErrLocked)
	errAlone = fmt.Errorf("%w: it has no [cluster] in its configuration, and so has the database alone: stop it, and give it a name in [cluster] host", store.ErrLocked)
)

// errShared returns the error of a host that wants a database alone which hosts share.
func errShared(hosts string) error {
	return fmt.Errorf("%w: hosts that have [cluster] in their configuration share the database%s: stop them and wait until their leases have expired, a few seconds, or give this one a name in [cluster] host",
		store.ErrLocked, hosts)
}

// taken returns why a host cannot open the database, if its lock or that of the database is taken.
func (s *session) taken(host bool) error {
	switch {
	case host && s.alone:
		return errInUse
	case host:
		return errNamed
	case s.alone:
		return errShared("")
	}
	return errAlone
}

// lock locks the host and the database on a connection of its own. After a connection has broken, its server process may still have the
// locks, or another incarnation.
func (s *session) lock(ctx context.Context) error {
	query := lockShared
	if s.alone {
		query = lockAlone
	}
	for late := time.Now().Add(lockPatience); ; time.Sleep(lockPause) {
		var host, database bool
		if err := s.conn.QueryRow(ctx, query, s.host).Scan(&host, &database); err != nil || host && database {
			return err
		}
		switch {
		case s.incarnation == "" && time.Now().Before(late):
			continue
		case s.incarnation == "":
			return s.taken(!host)
		case host && time.Now().After(late):
			return store.ErrFenced // the locks of its own connection are free, and it was opened in the meantime
		case host:
			continue
		}
		var incarnation string
		if err := s.conn.QueryRow(ctx, "SELECT incarnation FROM hosts WHERE id = $1", s.host).Scan(&incarnation); err != nil {
			return err
		}
		if incarnation != s.incarnation {
			return store.ErrFenced
		}
		if time.Now().After(late) {
			return fmt.Errorf("%w: the server has not noticed that the one before is gone", errNoConnection)
		}
	}
}

// noneAlive returns an error if hosts that share the database have leases.
func noneAlive(ctx context.Context, db querier) error {
	var hosts string
	err := db.QueryRow(ctx, "SELECT coalesce(string_agg(id, ', ' ORDER BY id), '') FROM hosts WHERE expires > extract(epoch FROM clock_timestamp()) * 1000000000 AND id <> $1",
		store.DefaultHost).Scan(&hosts)
	if err == nil && hosts != "" {
		err = errShared(" (" + hosts + ")")
	}
	return err
}

// counted waits until neither the count of the host grows, nor that of a host that has the database alone, or returns who counts.
func (s *session) counted(ctx context.Context, db querier) error {
	count := func() (own, alone int64, err error) {
		err = db.QueryRow(ctx, `SELECT coalesce(max(seen) FILTER (WHERE id = $1), 0), coalesce(max(seen) FILTER (WHERE id = $2 AND expires = 0), 0) FROM hosts`,
			s.host, store.DefaultHost).Scan(&own, &alone)
		return own, alone, err
	}
	own, alone, err := count()
	if err != nil || own == 0 && alone == 0 {
		return err
	}
	for late := time.Now().Add(5 * countPeriod / 2); time.Now().Before(late); time.Sleep(countPeriod / 4) {
		switch own2, alone2, err := count(); {
		case err != nil:
			return err
		case own2 != own:
			return s.taken(true)
		case alone2 != alone:
			return s.taken(false)
		}
	}
	return nil
}

// appearance counts for an incarnation until stop is called.
type appearance struct {
	pool              *pgxpool.Pool
	host, incarnation string
	end               context.CancelFunc
	done              chan struct{}
}

func appear(pool *pgxpool.Pool, host, incarnation string) *appearance {
	ctx, end := context.WithCancel(context.Background())
	a := &appearance{pool, host, incarnation, end, make(chan struct{})}
	a.count(ctx, "seen + 1")
	go func() {
		defer close(a.done)
		for {
			select {
			case <-time.After(countPeriod):
				a.count(ctx, "seen + 1") // fails while the server is away
			case <-ctx.Done():
				return
			}
		}
	}()
	return a
}

func (a *appearance) count(ctx context.Context, seen string) {
	ctx, cancel := context.WithTimeout(ctx, countPeriod)
	defer cancel()
	tx, err := a.pool.Begin(ctx)
	if err != nil {
		return
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) // fails after the commit
	if _, err = tx.Exec(ctx, "SET LOCAL synchronous_commit = off"); err == nil {
		_, err = tx.Exec(ctx, "UPDATE hosts SET seen = "+seen+" WHERE id = $1 AND incarnation = $2", a.host, a.incarnation)
	}
	if err == nil {
		_ = tx.Commit(ctx)
	}
}

// stop lets the next process have the host at once.
func (a *appearance) stop() {
	a.end()
	<-a.done
	a.count(context.Background(), "0")
}

// lockFree is a condition: no process has the lock of a host.
func lockFree(host string) string {
	return `NOT EXISTS (SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('flynn host ' || ` + host + `, 0))`
}

// watched reports whether other hosts can see by its lock that this one is there.
func (s *Store) watched() bool { return s.session.locks && !s.db.pooled }

// Renew implements store.Owners.
func (s *Store) Renew(ctx context.Context, l store.Lease) (store.Renewal, error) {
	if s.db.pooled { // its connections outlast the server behind it
		if n, err := timeline(ctx, s.read); err == nil && n != s.session.timeline {
			return store.Renewal{}, fmt.Errorf("renew the lease: %w", store.ErrFailedOver)
		}
	}
	if !s.watched() {
		l.Reach = 0
	}
	r, err := s.Store.Renew(ctx, l)
	r.Watched = l.Reach > 0
	return r, err
}

// Signaled implements store.Owners. It also looks for hosts whose connection has ended, and reports whether one has died of that.
func (s *Store) Signaled(ctx context.Context) (bool, error) {
	told, err := s.Store.Signaled(ctx)
	if err != nil || told {
		return told, err
	}
	rows, err := s.read.Query(ctx, "SELECT id, gone > 0 FROM hosts, (SELECT extract(epoch FROM clock_timestamp()) * 1000000000 AS now) AS clock"+
		" WHERE expires > now AND id <> $1 AND CASE WHEN gone > 0 THEN gone <= now ELSE reach > 0 AND "+lockFree("id")+" END", s.session.host)
	if err != nil {
		return false, err
	}
	var ended []string
	var id string
	var died bool
	_, err = pgx.ForEachRow(rows, []any{&id, &died}, func() error {
		if told = told || died; !died {
			ended = append(ended, id)
		}
		return nil
	})
	for _, host := range ended {
		if err == nil {
			err = s.Ended(ctx, host, "SELECT "+lockFree("?"))
		}
	}
	return told, err
}
