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

// Systems replace the files by which names are looked up, as a laptop does in another network, and a view that shows such a file would show
// the one of before for as long as the process lives. Views have links instead, into a folder of copies that the host keeps up to date.

// NameFiles are those files.
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

// OpenNames makes the folder and copies what is there.
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

// Follow copies what changes until ctx ends, as it finds by looking every so often.
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

// copy takes over the files that have changed. One that is gone stays as it was: that is a moment of its replacement.
func (n *Names) copy() {
	for _, name := range n.files {
		info, err := os.Stat(name)
		before := n.seen[name]
		if err != nil || before != nil && os.SameFile(before, info) && info.ModTime().Equal(before.ModTime()) && info.Size() == before.Size() {
			continue
		}
		if err := n.replace(name); err != nil {
			n.log.Warn("plugins keep the old content of a changed file", "file", name, "error", err)
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

// putCopy replaces a copy in one step. It does not wait for the disk, since all copies are made anew at every start.
func putCopy(target string, text []byte) error {
	draft := filepath.Join(filepath.Dir(target), durable.DraftPrefix+filepath.Base(target))
	if err := os.WriteFile(draft, text, 0o644); err != nil {
		return err
	}
	if err := os.Chmod(draft, 0o644); err != nil { // whatever the umask
		return err
	}
	return os.Rename(draft, target)
}

// Links are the files with their copies. One that is not there yet may come; one that cannot be copied is shown as it is.
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
