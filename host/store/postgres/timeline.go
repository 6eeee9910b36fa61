package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/flynnhost/flynn/host/store"
)

// The number of a server's timeline grows when a standby is promoted or a backup is restored, and stays when a server starts again after a
// crash. So another number means that commits may be missing, among them claims of keys and renewals of leases. Each process of hosts that
// share a database remembers the number of its first connection. One that meets another number ends, since it may believe to have what
// the database says another host has. Those that start on a new timeline give no keys away, and do nothing, until all leases that are
// missing have expired.

// timeline returns the number of the server's timeline, or 0 where it does not tell.
func timeline(ctx context.Context, db querier) (n int64, err error) {
	err = db.QueryRow(ctx, "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint").Scan(&n)
	switch codeOf(err) {
	case codeNoFunction, codeNoRights, codeNotSupported:
		return 0, nil
	case codeNotReady:
		return 0, fmt.Errorf("%w: %v", errNoConnection, err)
	}
	return n, err
}

// follow returns store.ErrFailedOver if the server has another timeline than the one at which the process began.
func (s *session) follow(ctx context.Context) error {
	n, err := timeline(ctx, s.conn)
	switch {
	case err != nil:
		return err
	case s.incarnation == "":
		s.timeline = n
	case n != s.timeline:
		s.ended = s.failedOver(ctx)
		return s.ended
	}
	return nil
}

// failedOver returns the error of a host that meets another timeline. It reports whether commits of this host are missing.
func (s *session) failedOver(ctx context.Context) error {
	var incarnation string
	var last int64
	err := s.conn.QueryRow(ctx, "SELECT incarnation, commits FROM hosts WHERE id = $1", s.host).Scan(&incarnation, &last)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && incarnation != s.incarnation:
		return fmt.Errorf("%w: it does not know that this host was started", store.ErrFailedOver)
	case err == nil && last < s.acknowledged:
		return fmt.Errorf("%w: commits of this host are missing, so messages may be lost or answered again", store.ErrFailedOver)
	case err == nil:
		return fmt.Errorf("%w: of this host nothing is missing", store.ErrFailedOver)
	}
	return fmt.Errorf("%w: it cannot be asked what is missing: %w", store.ErrFailedOver, err)
}

// settle notes a new timeline. Until all leases have expired that hosts could have, no key is given away.
const settle = `UPDATE control SET timeline = $1, settles = CASE WHEN timeline = 0 THEN settles
	ELSE (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint + (SELECT coalesce(max(term), 0) FROM hosts) END
	WHERE timeline <> $1 AND $1 > 0`
