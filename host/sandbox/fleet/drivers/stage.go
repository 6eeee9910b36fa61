package drivers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/driver"
)

const (
	// copiesFolder is in the folder of the store.
	copiesFolder = "driver-copies"
	// stale is the age of what a host has left that died in the middle of a creation.
	stale = time.Hour
)

// stage puts what a container has copies of into a folder that the plugin can read: its process does not see the host's own files. clear removes
// that.
func (d *Driver) stage(c driver.Container) (_ driver.Container, clear func(), err error) {
	if !slices.ContainsFunc(c.Mounts, func(m driver.Mount) bool { return m.Kind == driver.Copy }) {
		return c, func() {}, nil
	}
	d.clearStale()
	dir, err := os.MkdirTemp(d.staged, "box-")
	if err != nil {
		return c, nil, err
	}
	clear = func() { _ = os.RemoveAll(dir) }
	c.Mounts = slices.Clone(c.Mounts)
	for i, m := range c.Mounts {
		if m.Kind != driver.Copy {
			continue
		}
		to := filepath.Join(dir, strconv.Itoa(i))
		if err := stageOne(m.Source, to); err != nil {
			clear()
			return c, nil, fmt.Errorf("copy %s: %w", m.Source, err)
		}
		c.Mounts[i].Source = to
	}
	return c, clear, nil
}

func stageOne(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func (d *Driver) clearStale() {
	left, _ := os.ReadDir(d.staged)
	for _, e := range left {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > stale {
			_ = os.RemoveAll(filepath.Join(d.staged, e.Name()))
		}
	}
}
