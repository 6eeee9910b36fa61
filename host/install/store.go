// Package install keeps what was installed from outside: versions on the disk that never change, and the lock file that says by digest
// which of them count. It is written once for plugins and policies, and knows neither.
//
// Start with Store, a folder of versions, and Lock. The folders below have the rest of the way from an author to a host: fetch gets an archive
// over the network, archive reads and writes it, folder puts files on the disk and compares them with their digests, signing says
// who vouches for them. What a manifest has to say, and what may run, is for host/plugin and host/policy/pack. The area uses host/internal
// alone.
package install

import (
	"errors"
	"os"
	"path"
	"path/filepath"

	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/internal/durable"
)

// Store is a folder of versions. Each lies below it in a folder of its own, read-only and never overwritten; its name is
// slash-separated and chosen by the user of the store. Nothing counts merely because it lies there.
type Store struct {
	Dir string
	Max folder.Bounds // of one version
}

// Path is where a version lies.
func (s Store) Path(version string) string { return filepath.Join(s.Dir, filepath.FromSlash(version)) }

// Open opens a version. Nothing of it is verified.
func (s Store) Open(version string) (*folder.Folder, error) {
	return folder.Open(s.Path(version), s.Max)
}

// Remove deletes versions: one, or all below a name.
func (s Store) Remove(version string) error { return folder.Remove(s.Path(version)) }

// Staged is a version on its way into a store, in a folder that has no name yet.
type Staged struct {
	*folder.Filling
	store Store
	dir   string // what is to be removed
	top   string // the folder in it that holds the version, "" for all of it
}

// Stage begins a version. Discard ends it in any case.
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

// Dir is where the files are for now.
func (st *Staged) Dir() string { return filepath.Join(st.dir, st.top) }

// Open opens what was written.
func (st *Staged) Open() (*folder.Folder, error) { return folder.Open(st.Dir(), st.store.Max) }

// Enter goes on with the only folder that there is, if everything lies in one: many archives are made like that.
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

// Place moves the version to where it stays, unless the very same is there already. Anything else in its place is not what the lock
// says, and makes room.
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

// syncAbove makes the name of a version last, and those of the folders that lead to it.
func (s Store) syncAbove(version string) error {
	for {
		version = path.Dir(version)
		if err := durable.SyncDir(s.Path(version)); err != nil || version == "." {
			return err
		}
	}
}

// Discard ends the staging, and removes what was not placed.
func (st *Staged) Discard() error {
	st.Close()
	return folder.Remove(st.dir)
}
