package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// leastRoom is the free space below which the disk of the store counts as low, in bytes.
const leastRoom = 512 << 20

func checkStore(ctx context.Context, in Input) (out []Finding) {
	dir := in.Config.Store.Dir
	if _, err := os.Stat(dir); err != nil {
		return nil // the first start makes it
	}
	version, err := sqlite.Check(ctx, dir)
	switch {
	case err != nil:
		out = append(out, find(StoreDamaged, "stop flynn, copy "+dir+", and restore flynn.db from a backup", "%v", err))
	case version > sqlite.Newest():
		out = append(out, find(StoreNewer, "run the flynn that wrote it",
			"the store has schema version %d, and this flynn knows %d", version, sqlite.Newest()))
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err == nil && uint64(s.Bavail)*uint64(s.Bsize) < leastRoom {
		out = append(out, find(StoreRoom, "make room on the disk of "+dir+"; flynn usage held shows who holds what",
			"%d MiB are free", uint64(s.Bavail)*uint64(s.Bsize)>>20))
	}
	if in.Running == nil && taken(dir) {
		out = append(out, find(StoreTaken, "stop the other host, or give this configuration another store.dir",
			"a host uses %s, but none answers at %s with the token of this configuration", dir, in.Config.Gateway.Listen))
	}
	return out
}

// taken reports whether a host uses the store. It does not create the lock.
func taken(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil {
		return false
	}
	f, err := sqlite.Lock(dir)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, store.ErrLocked)
}

// checkFiles looks for files with secrets and conversations that others may read.
func checkFiles(_ context.Context, in Input) (out []Finding) {
	c := in.Config
	look := func(path string, mode os.FileMode) {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o077 == 0 {
			return
		}
		f := find(FileOpen, "flynn doctor --fix, or chmod "+modeText(mode)+" "+path, "%s is open to others (mode %04o)", path, info.Mode().Perm())
		f.File, f.Fixable, f.mode = path, true, mode
		out = append(out, f)
	}
	look(c.Store.Dir, 0o700)
	look(c.Gateway.TokenFile, 0o600)
	for _, path := range secretFiles(c) {
		look(path, 0o600)
	}
	return out
}

func modeText(m os.FileMode) string {
	if m == 0o700 {
		return "700"
	}
	return "600"
}

// secretFiles returns the files in the folder secrets beside the configuration, and .env there.
func secretFiles(c *config.Config) (paths []string) {
	folder := filepath.Dir(c.Path)
	_ = filepath.WalkDir(filepath.Join(folder, "secrets"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			paths = append(paths, path)
		}
		return nil // what cannot be read by its owner is not open to others
	})
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if e.Type().IsRegular() && (e.Name() == ".env" || strings.HasSuffix(e.Name(), ".env")) {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	return paths
}
