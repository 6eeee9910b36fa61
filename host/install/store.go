// Package install stores installed plugins and policies: versions on the disk that never change, and the lock file that says by digest
// which of them may be used. It is the same for both kinds.
//
// Start with Store, a folder of versions, and Lock. The folders below have the rest of the way from an author to a host: fetch downloads an
// archive, archive reads and writes it, folder writes files to the disk and verifies their digests, signing signs them and verifies
// signatures. Packages host/plugin and host/policy/pack check manifests and decide what may run. The area uses only host/internal.
package install

import (
	"errors"
	"os"
	"path"
	"path/filepath"

	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/internal/durable"
)

// Store is a folder of versions. Each has its own folder below it, read-only and never overwritten, with a slash-separated name that the
// caller chooses. Nothing is used only because it is in the store.
type Store struct {
	Dir string
	Max folder.Bounds // of one version
}

// Path is the folder of a version.
func (s Store) Path(version string) string { return filepath.Join(s.Dir, filepath.FromSlash(version)) }

// Open opens a version without verifying it.
func (s Store) Open(version string) (*folder.Folder, error) {
	return folder.Open(s.Path(version), s.Max)
}

// Remove deletes versions: one, or all below a name.
func (s Store) Remove(version string) error { return folder.Remove(s.Path(version)) }

// Staged is a version that is not in its place yet, in a temporary folder.
type Staged struct {
	*folder.Filling
	store Store
	dir   string // the temporary folder
	top   string // the folder in it with the version; "" for dir itself
}

// Stage starts a version. The caller must call Discard in any case.
func (s Store) Stage() (*Staged, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(s.Dir, ".staged-")
	if err != nil {
		return nil, err
	}
	w, err := folder.Fill(dir, s.Max)
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return &Staged{Filling: w, store: s, dir: dir}, nil
}

// Dir is the temporary folder of the files.
func (st *Staged) Dir() string { return filepath.Join(st.dir, st.top) }

// Open opens the written files.
func (st *Staged) Open() (*folder.Folder, error) { return folder.Open(st.Dir(), st.store.Max) }

// Enter makes the only folder the version, if everything is in one folder, as in many archives.
func (st *Staged) Enter() error {
	entries, err := os.ReadDir(st.dir)
	if err == nil && len(entries) == 1 && entries[0].IsDir() {
		st.top = entries[0].Name()
	}
	return err
}

// Files returns the digest of each file of the version.
func (st *Staged) Files() map[string]string {
	out := map[string]string{}
	for name, sum := range st.Filling.Files() {
		if st.top != "" {
			name = name[len(st.top)+1:]
		}
		out[name] = sum
	}
	return out
}

// Place moves the version to its place, unless the same version is there already. Anything else in that place does not match the lock, and is
// replaced.
func (st *Staged) Place(version string) (known bool, err error) {
	if there, err := st.store.Open(version); err == nil {
		_, err := there.Verify(st.Files(), "")
		there.Close()
		if err == nil {
			return true, nil
		}
	}
	at := st.store.Path(version)
	if err := folder.Remove(at); err != nil {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return false, err
	}
	if err := folder.Seal(st.Dir()); err != nil {
		return false, err
	}
	if err := os.Rename(st.Dir(), at); err != nil {
		return false, err
	}
	return false, errors.Join(os.Chmod(at, 0o500), st.store.syncAbove(version))
}

// syncAbove syncs the folders above a version to the disk.
func (s Store) syncAbove(version string) error {
	for {
		version = path.Dir(version)
		if err := durable.SyncDir(s.Path(version)); err != nil || version == "." {
			return err
		}
	}
}

// Discard removes the temporary folder.
func (st *Staged) Discard() error {
	st.Close()
	return folder.Remove(st.dir)
}
