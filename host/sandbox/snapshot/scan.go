package snapshot

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/fsroot"
)

// file is a file, a folder or a link of a workspace.
type file struct {
	Path     string // any bytes but zero
	Mode     uint32 // type and permissions, as frame.Record has them
	Size     int64
	Mtime    int64
	Link     string
	UID, GID int
	// Dev, Ino and Ctime differ for another file, and for another content: a program cannot set the time of the change.
	Dev, Ino uint64
	Ctime    int64
	// Blob names the kept content of a file; empty if there is none.
	Blob string
	// Settled is true if the content was kept long enough after the change that a later one has another Ctime.
	Settled bool
}

func (f file) kind() uint32  { return f.Mode &^ 0o777 }
func (f file) folder() bool  { return f.kind() == frame.TypeFolder }
func (f file) regular() bool { return f.kind() == frame.TypeFile }
func (f file) record() frame.Record {
	return frame.Record{Path: []byte(f.Path), Mode: f.Mode, Size: f.Size, Mtime: f.Mtime, Link: []byte(f.Link)}
}

// untouched reports whether two entries are the same one, unchanged.
func (f file) untouched(g file) bool {
	return f.Mode == g.Mode && f.UID == g.UID && f.GID == g.GID && (f.folder() || f.Dev == g.Dev && f.Ino == g.Ino && f.Ctime == g.Ctime && f.Size == g.Size)
}

// state is the entries of a workspace at one time, by path.
type state struct {
	Files map[string]file
	// Skipped are paths that a snapshot does not cover: sockets, pipes and devices, what cannot be read, and what changed while it was copied.
	Skipped map[string]bool
}

// covers reports whether neither an entry nor a folder above it is skipped.
func (s state) covers(name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if s.Skipped[name] {
			return false
		}
	}
	return true
}

var errTooMany = fmt.Errorf("the workspace has more than %d entries", maxEntries)

// openTree opens a workspace. A missing one is an error that wraps fs.ErrNotExist.
func openTree(dir string, skip func(name string)) (fsroot.Tree, error) {
	root, err := os.OpenRoot(dir)
	return fsroot.Tree{Root: root, Lenient: true, Mirror: true, Passed: skip}, err
}

// scan returns the entries of a workspace, and calls take for each file. A missing workspace is empty.
func scan(ctx context.Context, dir string, take func(e fsroot.Entry, f *file) error) (state, error) {
	s, done, err := scanOpen(ctx, dir, take)
	done()
	return s, err
}

// scanOpen is scan for callers that open files of entries after it, until they call done.
func scanOpen(ctx context.Context, dir string, take func(e fsroot.Entry, f *file) error) (s state, done func(), err error) {
	s = state{Files: map[string]file{}, Skipped: map[string]bool{}}
	tree, err := openTree(dir, func(name string) { s.Skipped[name] = true })
	if errors.Is(err, fs.ErrNotExist) {
		return s, func() {}, nil
	}
	if err != nil {
		return s, func() {}, err
	}
	err = tree.Walk(ctx, func(e fsroot.Entry) error {
		if len(s.Files)+len(s.Skipped) >= maxEntries {
			return errTooMany
		}
		f := describe(e)
		if f.regular() && take != nil {
			if err := take(e, &f); err != nil {
				return err
			}
		}
		s.Files[f.Path] = f
		return nil
	})
	return s, func() { tree.Root.Close() }, err
}

func describe(e fsroot.Entry) file {
	f := file{Path: string(e.Path), Mode: e.Mode, Size: e.Size, Mtime: e.Mtime, Link: string(e.Link)}
	if f.folder() {
		f.Mode |= 0o700 // as fsroot makes them
		f.Mtime = 0
	}
	if st, ok := e.Info.Sys().(*syscall.Stat_t); ok {
		f.UID, f.GID = int(st.Uid), int(st.Gid)
		f.Dev, f.Ino, f.Ctime = uint64(st.Dev), st.Ino, changed(st)
	}
	return f
}

// allocated returns the bytes that a file takes on the disk.
func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}

// write writes a state to a file of the set.
func (s *set) write(name string, all state) error {
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(all); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(s.dir, name), text.Bytes(), 0o600)
}

func (s *set) read(name string) (all state, err error) {
	f, err := os.Open(filepath.Join(s.dir, name))
	if err != nil {
		return all, err
	}
	defer f.Close()
	return all, gob.NewDecoder(f).Decode(&all)
}

// sorted returns the paths for which such returns true, parents first.
func sorted[T any](all map[string]T, such func(T) bool) []string {
	var names []string
	for name, v := range all {
		if such(v) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
