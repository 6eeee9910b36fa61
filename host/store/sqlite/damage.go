//go:build unix

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	lib "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// Damage is looked for when the store is opened. Found later, it would fail one message after the other.

// checkWall bounds the search for damage when the store is opened, so that a large store does not delay the start. Pages that it has not reached by then are not
// checked. Tests change it.
var checkWall = 2 * time.Second

// usedMark is the content of the lock file once the folder has a database.
const usedMark = "flynn.db belongs to this folder\n"

// vanished refuses a folder whose database is missing or empty: a new one would silently forget every session, approval and event.
func vanished(lock *os.File, path string) error {
	if info, err := lock.Stat(); err != nil || info.Size() == 0 {
		return err
	}
	for _, name := range []string{path, path + "-wal"} { // everything may still be in the log
		switch info, err := os.Stat(name); {
		case err == nil && info.Size() > 0:
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return fmt.Errorf("%s is missing or empty, but this folder has had a database: restore it from a backup, or start with another store.dir", path)
}

// checkBriefly is check for the start.
func checkBriefly(ctx context.Context, conn *sql.Conn, path string) error {
	ctx, cancel := context.WithTimeout(ctx, checkWall)
	defer cancel()
	return check(ctx, conn, path)
}

// check checks that every page is where the database says, and readable, until ctx ends. It does not compare indexes, which takes far longer.
func check(ctx context.Context, conn *sql.Conn, path string) error {
	var found string
	err := conn.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	case found != "ok":
		return damaged(path, errors.New(found))
	}
	return nil
}

// advise adds advice to the error of a damaged database or a full disk.
func advise(path string, err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return noRoom(path, err)
	}
	var e *lib.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		return damaged(path, err)
	case codes.SQLITE_FULL, codes.SQLITE_IOERR:
		if full(filepath.Dir(path)) {
			return noRoom(path, err)
		}
	}
	return err
}

func noRoom(path string, err error) error {
	return fmt.Errorf("the disk is full: make room for %s: %w", path, err)
}

// leastFree is the space that opening a database needs for its log and shared memory, in bytes.
const leastFree = 1 << 20

// full reports whether the file system of a folder has hardly any free space.
func full(dir string) bool {
	free, err := Free(dir)
	return err == nil && free < leastFree
}

// Free returns the free space of the file system of a folder, in bytes.
func Free(dir string) (uint64, error) {
	var s unix.Statfs_t
	err := unix.Statfs(dir, &s)
	return s.Bavail * uint64(s.Bsize), err
}

func damaged(path string, err error) error {
	return fmt.Errorf("%s is damaged: %w: make a copy of the folder first; then restore the file from a backup, or recover what is left with: "+
		"sqlite3 %s .recover | sqlite3 recovered.db", path, err, path)
}
