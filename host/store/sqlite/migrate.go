package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"slices"
)

// migrations hold one file per schema version, applied in order and never changed after a release.
//
//go:embed migrations/*.sql
var migrations embed.FS

// versionWith returns the schema version of a migration.
func versionWith(name string) int {
	files, err := migrations.ReadDir("migrations")
	if err != nil { // they are embedded
		panic(err)
	}
	i := slices.IndexFunc(files, func(f fs.DirEntry) bool { return f.Name() == name })
	return i + 1
}

// migrate applies the missing migrations, each in a transaction of its own; user_version counts them.
func migrate(ctx context.Context, conn *sql.Conn) error {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return err
	}
	var have int
	if err := conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if have > len(files) {
		return fmt.Errorf("schema version %d is newer than this flynn knows (%d): run the newer flynn", have, len(files))
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
	return nil
}
