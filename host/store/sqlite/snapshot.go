package sqlite

import (
	"context"
	"errors"
	"fmt"

	lib "modernc.org/sqlite"
)

// snapshotPages is how many pages are copied between two looks at whether to go on.
const snapshotPages = 2000

// Snapshot copies a database as it is at one moment to a new file, page by page. Other processes may go on writing to it. It need not be
// Flynn's own, and nothing in it is run.
func Snapshot(ctx context.Context, path, to string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("copy database %s: %w", path, err)
		}
	}()
	db, err := openFile(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// The transaction holds the moment until the last page is copied. Reading the version begins it without reading the schema.
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	var version int
	if err := conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	return conn.Raw(func(c any) (err error) {
		copying, err := c.(interface {
			NewBackup(uri string) (*lib.Backup, error)
		}).NewBackup("file:" + escaped(to))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, copying.Finish()) }()
		for more := true; more && err == nil; {
			if err = ctx.Err(); err == nil {
				more, err = copying.Step(snapshotPages)
			}
		}
		return err
	})
}

// CheckWhole compares all of a database with itself, its indexes included. It takes far longer than Check.
func CheckWhole(ctx context.Context, path string) (err error) {
	db, err := openFile(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var found string
	if err := db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&found); err != nil {
		return advise(path, err)
	}
	if found != "ok" {
		return damaged(path, errors.New(found))
	}
	return nil
}
