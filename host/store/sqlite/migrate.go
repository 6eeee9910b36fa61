package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"slices"

	"github.com/flynnhost/flynn/host/buildinfo"
)

// migrations hold one file per schema version, applied in order and never changed after a release.
//
//go:embed migrations/*.sql
var migrations embed.FS

// versionWith returns the schema version of a migration.
func versionWith(name string) int {
	return slices.IndexFunc(scripts(), func(f fs.DirEntry) bool { return f.Name() == name }) + 1
}

// newest returns the schema version that this Flynn writes.
func newest() int { return len(scripts()) }

func scripts() []fs.DirEntry {
	files, err := migrations.ReadDir("migrations")
	if err != nil { // they are embedded
		panic(err)
	}
	return files
}

// migrate applies the missing migrations, each in a transaction of its own; user_version counts them.
func migrate(ctx context.Context, conn *sql.Conn) error {
	files := scripts()
	var have int
	if err := conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if have > len(files) {
		return newer(ctx, conn, have, len(files))
	}
	for i := have; i < len(files); i++ {
		text, err := migrations.ReadFile("migrations/" + files[i].Name())
		if err != nil {
			return err
		}
		script := fmt.Sprintf("BEGIN IMMEDIATE;\n%s\nPRAGMA user_version = %d;\nCOMMIT;", text, i+1)
		if _, err := conn.ExecContext(ctx, script); err != nil {
			conn.ExecContext(ctx, "ROLLBACK")
			return fmt.Errorf("apply migration %s: %w", files[i].Name(), err)
		}
	}
	return recordVersion(ctx, conn)
}

// recordVersion records which Flynn writes the store. It costs a commit only when that changes.
func recordVersion(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `INSERT INTO written_by (id, version) VALUES (1, ?)
		ON CONFLICT (id) DO UPDATE SET version = excluded.version WHERE version <> excluded.version`, buildinfo.Version())
	if err != nil {
		return fmt.Errorf("record the version: %w", err)
	}
	return nil
}

// row is what a connection and a pool have in common.
type row interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// newer returns the error of a store that a newer Flynn has written.
func newer(ctx context.Context, db row, have, know int) error {
	writer := "a newer flynn"
	var version string
	if err := db.QueryRowContext(ctx, "SELECT version FROM written_by").Scan(&version); err == nil {
		writer = fmt.Sprintf("flynn %.64q", version)
	}
	return fmt.Errorf("the store was written by %s and has schema version %d; this is flynn %q, which knows versions up to %d: "+
		"install the newer flynn again, or use a copy of the folder from before the upgrade", writer, have, buildinfo.Version(), know)
}
