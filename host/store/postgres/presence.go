package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/flynnhost/flynn/host/store"
)

// One process at a time is a host. On a connection of its own it holds a lock, which the server releases when the process ends. Through a
// pooler, where no lock lasts longer than a transaction, it counts in its row of hosts; the count grows while it lives, so that no
// clock is needed. Both only keep two processes from taking the host from each other by mistake: what a process may write is decided by
// the fence.

const (
	hostLock    = "SELECT pg_try_advisory_lock(hashtextextended('flynn host ' || $1, 0))"
	lockPause   = 10 * time.Millisecond
	countPeriod = time.Second
)

// A killed process has the lock until its server process notices; the next one waits that long.
const lockPatience = 2 * time.Second

var errInUse = fmt.Errorf("%w: stop it, or give this one another database", store.ErrLocked)

// lockHost locks the host on a connection of its own. After a connection has broken, its server process may still have the lock, or
// another incarnation.
func (s *session) lockHost(ctx context.Context) error {
	for late := time.Now().Add(lockPatience); ; time.Sleep(lockPause) {
		var locked bool
		if err := s.conn.QueryRow(ctx, hostLock, s.host).Scan(&locked); err != nil || locked {
			return err
		}
		if s.incarnation == "" {
			if time.Now().After(late) {
				return errInUse
			}
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

// counted waits until the count of a host does not grow, or returns errInUse.
func counted(ctx context.Context, db querier, host string) error {
	count := func() (n int64, err error) {
		err = db.QueryRow(ctx, "SELECT coalesce(max(seen), 0) FROM hosts WHERE id = $1", host).Scan(&n)
		return n, err
	}
	before, err := count()
	if err != nil || before == 0 {
		return err
	}
	for late := time.Now().Add(5 * countPeriod / 2); time.Now().Before(late); time.Sleep(countPeriod / 4) {
		if now, err := count(); err != nil || now != before {
			return errors.Join(err, errInUse)
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
