// Package backup copies everything that a host keeps into one encrypted file, and puts it back.
//
// Start with Make and Restore; Runner makes backups by the schedule of the configuration. A backup is a tar archive, compressed with gzip and
// encrypted with age, so that the programs age and tar open it too. Its first entry says where it comes from, and its last one lists all
// others with their digests: a backup that was cut short or changed is refused. The package keeps no state: what the folder of the backups
// has is what there is.
package backup

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"filippo.io/age"

	"github.com/flynnhost/flynn/host/buildinfo"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/internal/filelock"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// The names of an archive's entries. The folders hold what was in that of flynn.toml, and in that of the store.
const (
	headName     = "flynn-backup.json"
	manifestName = "manifest.json"
	configFolder = "config"
	storeFolder  = "store"
	// secretsFolder is beside flynn.toml.
	secretsFolder = "secrets"
	configFile    = configFolder + "/flynn.toml"
	databaseFile  = "flynn.db"
)

// format is the version of the archive's layout.
const format = 1

// head is the first entry of an archive.
type head struct {
	Format int       `json:"format"`
	Made   time.Time `json:"made"`
	Flynn  string    `json:"flynn"`
	Host   string    `json:"host"`
	// Store is the folder of the store as the configuration has it: counted from the folder of flynn.toml if it is in there.
	Store string `json:"store"`
}

// manifest is the last entry of an archive.
type manifest struct {
	Entries []entry `json:"entries"`
	Left    []Left  `json:"left,omitempty"`
}

// entry is a line of the list. A name that is not valid UTF-8, which JSON cannot hold, is quoted as in Go.
type entry struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"` // of a file
}

func listed(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	return strconv.Quote(name)
}

// Left is a file that a backup does not have, or not as it should.
type Left struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Made says what Make has made.
type Made struct {
	Path  string    `json:"path"`
	Time  time.Time `json:"time"`
	Bytes int64     `json:"bytes"`
	Files int       `json:"files"`
	Left  []Left    `json:"left,omitempty"`
}

// Make makes a backup in a folder, for those who have one of the keys. A host may be running. The configuration is copied as it is in its
// file, with the files that it names and that are in its folder.
func Make(ctx context.Context, c *config.Config, getenv func(string) string, folder string, keys []age.Recipient, now time.Time) (m Made, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("make a backup in %s: %w", folder, err)
		}
	}()
	if c.Store.URLEnv != "" {
		return m, fmt.Errorf("the database is in Postgres: back it up with pg_dump, and copy the folder %s", c.Store.Dir)
	}
	for _, dir := range []string{folder, c.Store.Dir} { // before the first start there is no store
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return m, err
		}
	}
	if err := apart(c.Store.Dir, folder); err != nil {
		return m, err
	}
	temp, err := os.MkdirTemp(c.Store.Dir, scratch)
	if err != nil {
		return m, err
	}
	release, err := filelock.TryDir(temp) // for Sweep
	if err != nil {
		return m, err
	}
	defer func() {
		err = errors.Join(err, os.RemoveAll(temp))
		release()
	}()
	draft, err := durable.Begin(folder)
	if err != nil {
		return m, err
	}
	defer draft.Discard()
	sealed, err := age.Encrypt(draft, keys...)
	if err != nil {
		return m, err
	}
	packed := gzip.NewWriter(sealed)
	w := &writer{ctx: ctx, tar: tar.NewWriter(packed), temp: temp}
	if err := w.all(c, getenv, now); err != nil {
		return m, err
	}
	if err := errors.Join(w.tar.Close(), packed.Close(), sealed.Close()); err != nil {
		return m, err
	}
	m = Made{Path: filepath.Join(folder, Name(now)), Time: now.UTC().Truncate(time.Second), Files: w.files, Left: w.left}
	if _, err := os.Lstat(m.Path); !errors.Is(err, fs.ErrNotExist) {
		return m, errors.Join(fmt.Errorf("%s is there already", filepath.Base(m.Path)), err)
	}
	if err := draft.Commit(m.Path, 0o600); err != nil {
		return m, err
	}
	info, err := os.Stat(m.Path)
	if err == nil {
		m.Bytes = info.Size()
	}
	return m, err
}

// scratch begins the name of a folder in the store for what is copied before it is packed. One that is found there was left by a crash.
const scratch = ".backup-"

// Sweep removes what backups that a crash has ended have left in the folder of a store.
func Sweep(store string) error {
	left, err := filepath.Glob(filepath.Join(store, scratch+"*"))
	for _, path := range left {
		release, errHeld := filelock.TryDir(path)
		if errHeld != nil { // by a backup that is being made
			continue
		}
		err = errors.Join(err, os.RemoveAll(path))
		release()
	}
	return err
}

// apart returns an error if backups would be made in the folder that they are of.
func apart(store, folder string) error {
	for _, p := range []*string{&store, &folder} {
		real, err := filepath.EvalSymlinks(*p)
		if err == nil {
			real, err = filepath.Abs(real)
		}
		if err != nil {
			return err
		}
		*p = real
	}
	if within(store, folder) {
		return fmt.Errorf("it is in the folder of the store, %s, and would be lost together with it: name another, on another disk", store)
	}
	return nil
}

// all writes the entries of an archive.
func (w *writer) all(c *config.Config, getenv func(string) string, now time.Time) error {
	text, err := config.Read(c.Path)
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(filepath.Dir(c.Path))
	if err != nil {
		return err
	}
	at, name := c.Store.Dir, c.Store.Host
	if within(folder, c.Store.Dir) {
		at, _ = filepath.Rel(folder, c.Store.Dir)
	}
	if name == "" {
		name, _ = os.Hostname()
	}
	if err := w.json(headName, head{Format: format, Made: now.UTC(), Flynn: buildinfo.Version(), Host: name, Store: at}); err != nil {
		return err
	}
	if err := w.bytes(configFile, text, 0o600); err != nil {
		return err
	}
	if err := w.named(c, folder, getenv); err != nil {
		return err
	}
	// The database first: it refers to files, which are there before it does.
	if err := w.database(filepath.Join(c.Store.Dir, databaseFile), storeFolder+"/"+databaseFile); err != nil {
		return err
	}
	root, err := os.OpenRoot(c.Store.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := w.folder(root, storeFolder, c.Store.Dir, topSkipped); err != nil {
		return err
	}
	return w.json(manifestName, manifest{Entries: w.entries, Left: w.left})
}

// topSkipped reports whether an entry of the store's folder is no part of a backup: it belongs to the process, is made again by itself, or was
// written already.
func topSkipped(name string) bool {
	switch name {
	case "lock", "wasm-cache", databaseFile, databaseFile + "-wal", databaseFile + "-shm", databaseFile + "-journal":
		return true
	}
	return strings.HasPrefix(name, scratch) || strings.HasPrefix(name, durable.DraftPrefix)
}

// named writes the files that the configuration names and that are in its folder, and the folder secrets there. Those in the store come with it.
func (w *writer) named(c *config.Config, folder string, getenv func(string) string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	if info, err := root.Lstat(secretsFolder); err == nil && info.IsDir() && !within(c.Store.Dir, filepath.Join(folder, secretsFolder)) {
		if err := w.inner(root, secretsFolder, configFolder+"/"+secretsFolder, filepath.Join(folder, secretsFolder), info); err != nil {
			return err
		}
	}
	for _, path := range c.Paths(getenv) {
		if within(c.Store.Dir, path) || within(filepath.Join(folder, secretsFolder), path) || path == c.Backup.To {
			continue
		}
		info, err := os.Stat(path)
		switch in, _ := filepath.Rel(folder, path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			w.leave(path, err.Error())
		case !info.Mode().IsRegular():
			w.leave(path, "flynn.toml names it, and of what that names a backup has files only")
		case !within(folder, path):
			w.leave(path, "flynn.toml names it, and it is not in the folder of flynn.toml")
		default:
			if err := w.file(root, in, configFolder+"/"+filepath.ToSlash(in), path); err != nil {
				return err
			}
		}
	}
	return nil
}

// within reports whether a path is in a folder, or the folder itself.
func within(folder, path string) bool {
	in, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(in)
}

// database writes a copy of a database as it is now.
func (w *writer) database(path, name string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) { // no host has run yet
		return nil
	}
	to := filepath.Join(w.temp, "database")
	defer os.Remove(to)
	if err := sqlite.Snapshot(w.ctx, path, to); err != nil {
		return err
	}
	if name == storeFolder+"/"+databaseFile {
		if err := sqlite.CheckWhole(w.ctx, to); err != nil {
			return fmt.Errorf("the database is damaged, so the last backup is worth more than this one: %w", err)
		}
	}
	return w.copied(to, name)
}

func (w *writer) copied(path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return w.stream(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: 0o600, ModTime: info.ModTime()}, f, path)
}
