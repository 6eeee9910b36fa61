package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/host/sandbox/fsroot"
	"github.com/flynnhost/flynn/host/sandbox/quota"
	"github.com/flynnhost/flynn/host/sandbox/removeall"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

const (
	copyPrefix  = ".fork-"
	copyTimeout = 20 * time.Second
)

// Copied counts what Copy has copied.
type Copied struct {
	Files   int   `json:"files"`
	Bytes   int64 `json:"bytes"`
	Skipped int   `json:"skipped,omitempty" doc:"Sockets, pipes, devices and files that cannot be read"`
	Then    bool  `json:"then,omitempty" doc:"The files are as they were at the entry; otherwise as they are now"`
	// Why is for callers that continue without files.
	Why string `json:"why,omitempty" doc:"Why there are none; empty if all were copied"`
}

// Copy makes the workspace of a new session of the files of another one: all of it, or nothing if there is an error. left are the turns of the
// other session that are not part of the new one, oldest first: the files are as they were before the first of them that has a snapshot, and
// otherwise as they are now. write refuses bytes that the new session may not hold. Files that are written to meanwhile are copied as they are
// found.
func (s *Store) Copy(ctx context.Context, from, to message.WorkspaceKey, left []string, write func(bytes int64) error) (c Copied, err error) {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	one, err := s.open(from)
	if err != nil {
		return c, err
	}
	defer one.unlock()
	target := workspace.Path(s.Workspaces, to)
	if _, err := os.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		return c, errors.Join(err, errors.New("the new conversation has files already"))
	}
	kept, err := one.keptBefore(left)
	if err != nil {
		return c, err
	}
	if c.Files, c.Bytes, err = one.measure(ctx, kept); err != nil || c.Files == 0 {
		return Copied{}, err
	}
	if err := write(c.Bytes); err != nil {
		return Copied{}, err
	}
	draft, err := os.MkdirTemp(s.Workspaces, copyPrefix)
	if err != nil {
		return Copied{}, err
	}
	if kept != nil {
		c, err = one.copyKept(ctx, *kept, draft)
	} else {
		c, err = copyTree(ctx, one.files, draft, c.Bytes)
	}
	if err == nil {
		err = os.Rename(draft, target)
	}
	if err != nil {
		return Copied{}, errors.Join(err, removeall.Folder(draft))
	}
	return c, nil
}

// keptBefore returns the files before the first of the turns that has a snapshot; nil if none has.
func (s *set) keptBefore(turns []string) (*state, error) {
	for _, e := range s.index.Snapshots {
		if e.Undo || !slices.Contains(turns, e.Turn) {
			continue
		}
		if e.Why != "" {
			return nil, fmt.Errorf("the files as they were then are not kept: %s", e.Why)
		}
		kept, err := s.read(e.ID + before)
		return &kept, err
	}
	return nil, nil
}

// measure counts the entries and the bytes of kept files, or of those that are there.
func (s *set) measure(ctx context.Context, kept *state) (entries int, bytes int64, err error) {
	if kept == nil {
		now, err := scan(ctx, s.files, func(e fsroot.Entry, _ *file) error { bytes += allocated(e.Info); return nil })
		return len(now.Files), bytes, err
	}
	for _, f := range kept.Files {
		if f.Blob == "" {
			continue
		}
		info, err := os.Lstat(filepath.Join(s.dir, blobs, f.Blob))
		if err != nil {
			return 0, 0, err
		}
		bytes += allocated(info)
	}
	return len(kept.Files), bytes, nil
}

// copyKept puts kept files into a new folder.
func (s *set) copyKept(ctx context.Context, kept state, to string) (c Copied, err error) {
	root, err := os.OpenRoot(to)
	if err != nil {
		return c, err
	}
	defer root.Close()
	target := fsroot.Tree{Root: root}
	if err := lend(target, s.files); err != nil {
		return c, err
	}
	c.Then, c.Skipped = true, len(kept.Skipped)
	for _, name := range sorted(kept.Files, func(file) bool { return true }) {
		if err := ctx.Err(); err != nil {
			return c, err
		}
		f := kept.Files[name]
		if err := s.put(target, f); err != nil {
			return c, err
		}
		if f.regular() {
			c.Files++
			c.Bytes += f.Size
		}
	}
	return c, nil
}

// copyTree copies at most some bytes of files.
func copyTree(ctx context.Context, from, to string, most int64) (c Copied, err error) {
	source, err := openTree(from, func(string) { c.Skipped++ })
	if err != nil {
		return c, err
	}
	defer source.Root.Close()
	root, err := os.OpenRoot(to)
	if err != nil {
		return c, err
	}
	defer root.Close()
	target := fsroot.Tree{Root: root}
	if err := lend(target, from); err != nil {
		return c, err
	}
	err = source.Walk(ctx, func(e fsroot.Entry) error {
		f := describe(e)
		target.Owner = f.owner()
		if f.regular() {
			return copyFile(target, e, &c, most)
		}
		return target.Put(f.record(), nil)
	})
	return c, err
}

func copyFile(target fsroot.Tree, e fsroot.Entry, c *Copied, most int64) error {
	content, err := e.Open()
	if err != nil {
		c.Skipped++
		return nil
	}
	defer content.Close()
	info, err := content.Stat()
	if err != nil {
		return err
	}
	if c.Bytes += allocated(info); c.Bytes > most+most/8+1<<20 { // commands that still run may add some
		return fmt.Errorf("the files grew beyond %s while they were copied", quota.Size(most))
	}
	r := e.Record
	for range attempts {
		if info, err = content.Stat(); err != nil {
			return err
		}
		r.Mode, r.Size = frame.TypeFile|uint32(info.Mode().Perm()), info.Size()
		if err = target.Put(r, content); !errors.Is(err, io.ErrUnexpectedEOF) {
			c.Files++
			return err
		}
	}
	c.Skipped++ // its size changes all the time
	return nil
}

// lend gives a new folder the owner and the rights of another one.
func lend(to fsroot.Tree, from string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	err = to.Root.Chmod(".", info.Mode().Perm())
	if st, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		err = errors.Join(err, to.Root.Lchown(".", int(st.Uid), int(st.Gid)))
	}
	return err
}

// clearCopies removes what a crash has left of copies.
func (s *Store) clearCopies() error {
	left, err := filepath.Glob(filepath.Join(s.Workspaces, copyPrefix+"*"))
	for _, dir := range left {
		err = errors.Join(err, removeall.Folder(dir))
	}
	return err
}
