package jail

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/internal/durable"
)

// NameFiles are the files for name lookups. A system replaces them, for example when a laptop joins another network, and a view of files that
// shows such a file would show the old one as long as the process lives. So views have links into a folder of copies, which the host keeps up
// to date.
func NameFiles() []string { return []string{"/etc/resolv.conf", "/etc/hosts"} }

const (
	namesDir = "names"  // of the run folder
	maxNames = 16 << 20 // bytes of one file; some have long lists of hosts
)

// Names is the folder of copies.
type Names struct {
	Dir   string
	files []string
	seen  map[string]fs.FileInfo
	log   *slog.Logger
}

// OpenNames creates the folder and copies the files.
func OpenNames(runDir string, files []string, log *slog.Logger) (*Names, error) {
	n := &Names{Dir: filepath.Join(runDir, namesDir), files: files, seen: map[string]fs.FileInfo{}, log: log}
	if err := os.RemoveAll(n.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return nil, err
	}
	n.copy()
	return n, nil
}

// Follow copies changed files until ctx ends.
func (n *Names) Follow(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n.copy()
		case <-ctx.Done():
			return
		}
	}
}

// copy copies the files that have changed. If one is missing its copy stays: it is probably being replaced.
func (n *Names) copy() {
	for _, name := range n.files {
		info, err := os.Stat(name)
		before := n.seen[name]
		if err != nil || before != nil && os.SameFile(before, info) && info.ModTime().Equal(before.ModTime()) && info.Size() == before.Size() {
			continue
		}
		if err := n.replace(name); err != nil {
			n.log.Warn("cannot copy a changed file for plugins; they keep the old content", "file", name, "error", err)
		}
		n.seen[name] = info
	}
}

// replace copies one file in one step.
func (n *Names) replace(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxNames+1))
	if err != nil {
		return err
	}
	if len(text) > maxNames {
		return errors.New("it is too long")
	}
	target := filepath.Join(n.Dir, filepath.Base(name))
	if old, err := os.ReadFile(target); err == nil && bytes.Equal(old, text) {
		return nil
	}
	return putCopy(target, text)
}

// putCopy replaces a copy atomically. It does not wait for the disk, because every start makes all copies again.
func putCopy(target string, text []byte) error {
	draft := filepath.Join(filepath.Dir(target), durable.DraftPrefix+filepath.Base(target))
	if err := os.WriteFile(draft, text, 0o644); err != nil {
		return err
	}
	if err := os.Chmod(draft, 0o644); err != nil { // despite the umask
		return err
	}
	return os.Rename(draft, target)
}

// Links are the files with their copies, including files that do not exist yet. A file that cannot be copied is shown itself.
func (n *Names) Links() map[string]string {
	out := map[string]string{}
	for _, name := range n.files {
		target := filepath.Join(n.Dir, filepath.Base(name))
		_, copied := os.Stat(target)
		_, there := os.Stat(name)
		if copied == nil || errors.Is(there, fs.ErrNotExist) {
			out[name] = target
		}
	}
	return out
}
