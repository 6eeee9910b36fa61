//go:build linux

package supervise

import (
	"time"

	"golang.org/x/sys/unix"
)

// surveyDepth bounds how many folders a survey holds open; below that it continues only if deep is set, see below.go.
const surveyDepth = 128

// stateDir is the workspace's folder for the state of commands. It contains no user files.
const stateDir = ".flynn"

// survey visits every entry of the workspace once, by descriptors of folders: it follows no links and enters no other file systems. It runs
// with the workload's identity, so without force it does not see what the workload has made inaccessible to itself.
type survey struct {
	// see is called for each entry except folders, with its path in two parts, and reports whether the walk continues.
	see func(folder []byte, name string, st *unix.Stat_t) bool
	// skip is the name of a top-level entry to leave out.
	skip string
	// closed, if set, is called with the path of each unreadable folder. It reports whether the folder is remembered.
	closed func(folder []byte) bool
	// deep continues where folders are deeper than surveyDepth; see does not get the path there.
	deep bool
	buf  []byte // used for that
	// force enters folders that the workload has made inaccessible to itself, too.
	force    bool
	deadline time.Time // zero for none
	dev      uint64
	path     []byte
	seen     int
	cut      bool // not everything was visited
}

// run walks the tree at root, a descriptor that stays open.
func (w *survey) run(root int) {
	fd, err := unix.Openat(root, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		w.cut = true
		return
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil {
		w.dev = st.Dev
	}
	w.folder(fd, 0)
}

// folder walks one folder and closes it. It reports whether to continue.
func (w *survey) folder(fd, depth int) bool {
	defer unix.Close(fd)
	var buf [8 << 10]byte
	var names []string
	for {
		n, err := unix.ReadDirent(fd, buf[:])
		if err != nil {
			w.cut = true
		}
		if n <= 0 {
			return true
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if depth == 0 && name == w.skip {
				continue
			}
			if !w.entry(fd, name, depth) {
				w.cut = true
				return false
			}
		}
	}
}

// clockEvery is how many entries pass between checks of the clock.
const clockEvery = 256

func (w *survey) entry(fd int, name string, depth int) bool {
	var st unix.Stat_t
	if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return true // removed meanwhile
	}
	if !w.count(name, &st) {
		return false
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Dev != w.dev {
		return true
	}
	if depth >= surveyDepth && !w.deep {
		w.cut = true
		return true
	}
	inner, closeAgain, err := w.open(fd, name, depth < surveyDepth)
	if err != nil {
		known := err == unix.EACCES && w.closed != nil && w.closed(append(w.path, name...))
		w.cut = w.cut || err != unix.ENOENT && !known
		return true
	}
	defer closeAgain()
	if depth >= surveyDepth {
		return w.below(inner)
	}
	before := len(w.path)
	w.path = append(append(w.path, name...), '/')
	on := w.folder(inner, depth+1)
	w.path = w.path[:before]
	return on
}

// open opens a folder. With force, a folder that its owner has made inaccessible gets permissions first, which closeAgain revokes if
// takeBack is set; deep in the tree they stay.
func (w *survey) open(at int, name string, takeBack bool) (fd int, closeAgain func(), err error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	closeAgain = func() {}
	var st unix.Stat_t
	if w.force && unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&0o500 != 0o500 {
		handle, err := unix.Openat(at, name, unix.O_PATH|flags, 0)
		if err != nil {
			return -1, closeAgain, err
		}
		opened := unix.Chmod(descriptor(handle), st.Mode&0o7777|0o700) == nil
		if !takeBack || !opened {
			unix.Close(handle)
		} else {
			closeAgain = func() { _ = unix.Chmod(descriptor(handle), st.Mode&0o7777); unix.Close(handle) }
		}
	}
	if fd, err = unix.Openat(at, name, unix.O_RDONLY|flags, 0); err != nil {
		closeAgain()
		closeAgain = func() {}
	}
	return fd, closeAgain, err
}
