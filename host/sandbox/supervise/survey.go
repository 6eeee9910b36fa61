//go:build linux

package supervise

import (
	"time"

	"golang.org/x/sys/unix"
)

// surveyDepth bounds how many folders a survey holds open; below that it goes on only if it is to see all, see below.go.
const surveyDepth = 128

// stateDir is the workspace's folder for what is kept about commands. Nobody's work is in it.
const stateDir = ".flynn"

// survey looks at every entry of the workspace once, by handles on folders: no link is followed, and no other file system
// entered. It runs with the workload's identity, so what the workload hid from itself is not seen without force.
type survey struct {
	// see is called for each entry but folders, with its path in pieces, and reports whether the walk goes on.
	see func(folder []byte, name string, st *unix.Stat_t) bool
	// skip leaves out an entry of the workspace itself.
	skip string
	// closed, if set, is called with the path of each folder that may not be read. It reports whether the folder is remembered.
	closed func(folder []byte) bool
	// deep goes on where folders are deeper than surveyDepth, of which see is not told the path.
	deep bool
	buf  []byte // for that
	// force goes into folders that the workload has closed to itself, too.
	force    bool
	deadline time.Time // zero for none
	dev      uint64
	path     []byte
	seen     int
	cut      bool // not everything was seen
}

// run walks the tree at root, a handle that stays open.
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

// folder walks one folder and closes it. It reports whether to go on.
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

// clockEvery is how many entries pass between two looks at the clock.
const clockEvery = 256

func (w *survey) entry(fd int, name string, depth int) bool {
	var st unix.Stat_t
	if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return true // gone since
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

// open opens a folder. With force, one that its owner has closed to itself is opened to it first, which closeAgain takes back
// if that is asked for: far down nothing is held open for it.
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
