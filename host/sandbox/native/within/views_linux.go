package within

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/rawfork"
)

// views are the views of files that sandboxes begin with. Sandboxes of the same kind have the same one, which is made once: a mount namespace whose
// root is the view. A sandbox gets a copy of it, in which the kernel has locked every mount and its attributes, because the sandbox has
// other users. A view has nothing that is written to, so nothing gets from one sandbox to another.
type views struct {
	mu   sync.Mutex
	made []*view // the one that was used last is the first
}

// maxViews bounds how many are kept.
const maxViews = 8

// view is one view.
type view struct {
	shows string // what it shows, see Config.shows
	paths map[string]kind
	jobs  chan func() // run by do
	gone  chan struct{}
}

// viewTimeout bounds the time until a view is made.
const viewTimeout = 10 * time.Second

// of returns the view that a sandbox begins with.
func (v *views) of(c Config) (*view, error) {
	shows, err := c.shows()
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, one := range v.made {
		if one.shows == shows {
			copy(v.made[1:], v.made[:i])
			v.made[0] = one
			return one, nil
		}
	}
	one, err := c.newView(shows)
	if err != nil {
		return nil, err
	}
	v.made = append([]*view{one}, v.made...)
	if len(v.made) > maxViews {
		close(v.made[maxViews].gone)
		v.made = v.made[:maxViews]
	}
	return one, nil
}

// shows describes all that a view depends on: what it is made of, and which files of the host there are at this moment. A program that replaces one
// of them so causes another view.
func (c Config) shows() (string, error) {
	text := fmt.Appendf(nil, "%q %v %q\n", c.Root, c.Loopback, c.Files) // the thread of a view that has the host's network never leaves it
	host := c.Host
	if c.Image != "" {
		host = []string{c.Image}
	}
	for _, name := range host {
		var st unix.Stat_t
		err := unix.Lstat(name, &st)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return "", &fs.PathError{Op: "lstat", Path: name, Err: err}
		}
		link := ""
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			if link, err = os.Readlink(name); err != nil {
				return "", err
			}
		}
		text = fmt.Appendf(text, "%q %d %d %o %q\n", name, st.Dev, st.Ino, st.Mode&unix.S_IFMT, link)
	}
	for _, m := range c.all {
		text = fmt.Appendf(text, "%q %d\n", m.Target, m.what)
	}
	return string(text), nil
}

// newView makes a view, in a process that ends when a thread of this one has its namespace.
func (c Config) newView(shows string) (*view, error) {
	control, report, err := pipes()
	if err != nil {
		return nil, err
	}
	defer closeFiles(control[:]...)
	defer closeFiles(report[:]...)
	p := newPlan(c.Root, map[string]kind{"": directory})
	release, err := p.inherit(descriptor{controlFD, int(control[0].Fd())}, descriptor{reportFD, int(report[1].Fd())})
	if err != nil {
		return nil, err
	}
	c.becomeRoot(p)
	err = c.base(p)
	p.do(unix.SYS_CLOSE, reportFD)
	p.do(unix.SYS_READ, controlFD, hold(p, new(byte)), 1)
	p.do(unix.SYS_EXIT_GROUP, 0)
	var pid int
	if err == nil {
		pid, err = p.fork(unix.CLONE_NEWNS|unix.CLONE_NEWPID, rawfork.Anywhere)
	}
	release()
	if err != nil {
		return nil, err
	}
	defer reap(pid, -1)
	defer control[1].Close()
	report[1].Close()
	if err = report[0].SetReadDeadline(time.Now().Add(viewTimeout)); err == nil {
		err = Outcome(report[0])
	}
	if err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return nil, err
	}
	one := &view{shows: shows, paths: p.paths, jobs: make(chan func()), gone: make(chan struct{})}
	return one, one.enter(pid)
}

// enter gives the view a thread whose root it is, taken from the process that has made it.
func (v *view) enter(pid int) error {
	names, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("keep a view: %w", err)
	}
	entered := make(chan error)
	apart(func() {
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Setns(names, unix.CLONE_NEWNS)
		}
		unix.Close(names)
		if entered <- err; err != nil {
			return
		}
		for {
			select {
			case do := <-v.jobs:
				do()
			case <-v.gone:
				return
			}
		}
	})
	if err := <-entered; err != nil {
		return fmt.Errorf("keep a view: %w", err)
	}
	return nil
}

// copyOfPaths returns what is known of the view's paths. Each that sandboxes mount something on is there.
func (v *view) copyOfPaths() map[string]kind {
	paths := maps.Clone(v.paths)
	for path, what := range paths {
		if what == given {
			paths[path] = directory
		}
	}
	return paths
}

// do runs a function on the thread that has the view as its root, where a new mount namespace is a copy of the view.
func (v *view) do(what func()) error {
	done := make(chan struct{})
	select {
	case v.jobs <- func() { defer close(done); what() }:
		<-done
		return nil
	case <-v.gone:
		return errors.New("its view was replaced: try again")
	}
}

// pipes returns two pipes, whose second files are to write to.
func pipes() (a, b [2]*os.File, err error) {
	if a[0], a[1], err = os.Pipe(); err != nil {
		return a, b, err
	}
	if b[0], b[1], err = os.Pipe(); err != nil {
		closeFiles(a[:]...)
	}
	return a, b, err
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
