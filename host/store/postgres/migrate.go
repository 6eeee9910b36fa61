package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flynnhost/flynn/host/buildinfo"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// migrations hold one file per schema version, applied in order and never changed after a release.
//
// While one host is upgraded after the other, the hosts of two versions write to one schema. So a migration only adds what the version
// before does not see: tables, columns with defaults, indexes. A column that is no longer used is removed by a migration of a later version,
// when no host of a version that uses it can be left; that migration sets written_by.oldest to the first version that does not use it.
//
//go:embed migrations/*.sql
var migrations embed.FS

func scripts() []fs.DirEntry {
	files, err := migrations.ReadDir("migrations")
	if err != nil { // they are embedded
		panic(err)
	}
	return files
}

// NewestSchema returns the version of the schema that this Flynn writes.
func NewestSchema() int { return len(scripts()) }

// newer returns the error of a store that a newer Flynn has written so that this one cannot work with it.
func newer(s sqlstore.Stamp) error {
	if s.Oldest <= NewestSchema() {
		return nil
	}
	return strictlyNewer(s)
}

// strictlyNewer returns the error of a store that has what this Flynn does not know.
func strictlyNewer(s sqlstore.Stamp) error {
	return s.Newer(NewestSchema(), "restore a dump from before the upgrade")
}

// querier is what a connection, a pool and a transaction have in common.
type querier interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

func stampOf(ctx context.Context, db querier) (s sqlstore.Stamp, err error) {
	var there bool
	if err := db.QueryRow(ctx, "SELECT to_regclass('written_by') IS NOT NULL").Scan(&there); err != nil || !there {
		return s, err
	}
	// The column came with a later migration than the table.
	err = db.QueryRow(ctx, "SELECT schema, version, coalesce(CAST(to_jsonb(w)->>'oldest' AS BIGINT), schema) FROM written_by w").Scan(&s.Schema, &s.Writer, &s.Oldest)
	return s, err
}

// settled reports whether there is nothing to do about a store: this Flynn has written it, or a newer one that lets this one work with it.
func settled(s sqlstore.Stamp) bool {
	return s.Schema > NewestSchema() || s.Schema == NewestSchema() && s.Writer == buildinfo.Version()
}

// migrateFor bounds how long a migration is repeated. Hosts of the version before work with the tables meanwhile, and a migration that takes
// several of them can meet their transactions in a deadlock, or wait in vain.
const migrateFor = time.Minute

// migrate applies the missing migrations in one transaction, and records which Flynn writes the store. Two hosts that start together do so
// one after the other.
func migrate(ctx context.Context, conn *pgx.Conn) error {
	for began := time.Now(); ; {
		err := migrateOnce(ctx, conn)
		if !repeatable(err) || time.Since(began) > migrateFor {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100*time.Millisecond + rand.N(400*time.Millisecond)): // not at the same moment as before
		}
	}
}

func migrateOnce(ctx context.Context, conn *pgx.Conn) error {
	s, err := stampOf(ctx, conn)
	if err == nil {
		err = newer(s)
	}
	if err != nil || settled(s) {
		return err
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) // fails after the commit
	if _, err := tx.Exec(ctx, "SELECT set_config('lock_timeout', '2s', true), pg_advisory_xact_lock(hashtextextended('flynn schema', 0))"); err != nil {
		return err
	}
	if s, err = stampOf(ctx, tx); err == nil { // another host may have been faster
		err = newer(s)
	}
	if err != nil || settled(s) {
		return err
	}
	for i, f := range scripts()[s.Schema:] {
		text, err := migrations.ReadFile("migrations/" + f.Name())
		if err != nil {
			return err
		}
		if _, err := conn.PgConn().Exec(ctx, string(text)).ReadAll(); err != nil {
			return fmt.Errorf("apply migration %s: %w", f.Name(), err)
		}
		if _, err := tx.Exec(ctx, "UPDATE written_by SET schema = $1", s.Schema+i+1); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, "UPDATE written_by SET version = $1", buildinfo.Version()); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
