package within

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// resolve finds what the mounts of a sandbox are: its control groups, and what it is given, in their order.
func (c *Config) resolve() error {
	for _, name := range slices.Sorted(maps.Keys(c.Counters)) {
		c.all = append(c.all, Mount{Source: c.Counters[name], Target: counterAt(name), ReadOnly: true})
	}
	c.all = append(c.all, c.Mounts...)
	sources := 0
	for i := range c.all {
		m := &c.all[i]
		m.what = directory
		if m.File {
			m.what = file
		}
		if m.Source == "" {
			continue
		}
		sources++
		info, err := os.Stat(m.Source)
		if err != nil {
			return err
		}
		if m.what = directory; !info.IsDir() {
			m.what = file
		}
	}
	if sources > maxSources {
		return fmt.Errorf("the sandbox has more than %d mounts", maxSources)
	}
	return nil
}

// sources are the mounts that are files or folders of the host.
func (c *Config) sources() []Mount {
	return slices.DeleteFunc(slices.Clone(c.all), func(m Mount) bool { return m.Source == "" })
}

// attributes are those that the mount and the ones below get.
func (m Mount) attributes() *unix.MountAttr {
	set := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if m.ReadOnly {
		set |= unix.MOUNT_ATTR_RDONLY
	}
	return &unix.MountAttr{Attr_set: set}
}

// maxSources is below the number of descriptors that a message can have (unix(7)).
const maxSources = 250

// detached are mounts of the host's files that are attached nowhere.
type detached struct {
	fds  []int
	err  error
	done chan struct{}
}

// wait returns the mounts once all are made, or an error.
func (d *detached) wait() *detached {
	<-d.done
	return d
}

// detach begins to make the mounts of a sandbox's sources, on a thread of their own.
func (c *Config) detach() *detached {
	d := &detached{done: make(chan struct{})}
	apart(func() {
		defer close(d.done)
		d.clone(c.sources())
	})
	return d
}

// clone makes the mounts of sources. The mounts of the host at this moment are copied to this thread, which may clone them.
func (d *detached) clone(sources []Mount) {
	if d.err = unix.Unshare(unix.CLONE_NEWNS); d.err == nil {
		d.err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	for i := 0; i < len(sources) && d.err == nil; i++ {
		d.err = d.add(sources[i])
	}
}

// add makes the mount of a source.
func (d *detached) add(m Mount) error {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
	if !m.Alone {
		flags |= unix.AT_RECURSIVE
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, m.Source, flags)
	if err != nil {
		return fmt.Errorf("mount %s: %w", m.Source, err)
	}
	d.fds = append(d.fds, fd)
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, m.attributes()); err != nil {
		return fmt.Errorf("restrict the mount at %s (this needs Linux 5.12): %w", m.Target, err)
	}
	return nil
}

// apart calls a function on a thread that ends with it, so that it may give the thread other namespaces.
func apart(do func()) {
	go func() {
		runtime.LockOSThread()            // for ever; the runtime creates no threads from a locked one
		if unix.Gettid() == os.Getpid() { // the first thread stays what it is
			taken := make(chan struct{})
			apart(func() { close(taken); do() })
			<-taken
			runtime.UnlockOSThread()
			return
		}
		do()
	}()
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
