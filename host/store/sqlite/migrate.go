package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/flynnhost/flynn/host/buildinfo"
)

// migrations hold one file per schema version, applied in order and never changed after a release.
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

// migrate applies the missing migrations, each in a transaction of its own; user_version counts them.
func migrate(ctx context.Context, conn *sql.Conn) error {
	files := scripts()
	s, err := stampOf(ctx, conn)
	if err == nil {
		err = newer(s)
	}
	if err != nil {
		return err
	}
	for i := s.Schema; i < len(files); i++ {
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
