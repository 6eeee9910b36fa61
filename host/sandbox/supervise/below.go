//go:build linux

package supervise

import (
	"bytes"
	"time"

	"golang.org/x/sys/unix"
)

// level is a closed folder on the way down: its identity, and the names of its subfolders that are still to be visited, each followed by a
// zero byte.
type level struct {
	ino     uint64
	folders []byte
}

// below walks a folder and closes it, however deep the tree is, with two descriptors: on its way back it opens the parent, and stops if
// that is another folder by now. It reports whether to continue.
func (w *survey) below(fd int) bool {
	defer func() { unix.Close(fd) }()
	here, on := w.enter(fd)
	for above := []level(nil); on; {
		name, rest, more := bytes.Cut(here.folders, []byte{0})
		switch {
		case more:
			here.folders = rest
			inner, _, err := w.open(fd, string(name), false)
			if err != nil {
				w.cut = w.cut || err != unix.ENOENT
				continue
			}
			unix.Close(fd)
			fd, above = inner, append(above, here)
			here, on = w.enter(fd)
		case len(above) == 0:
			return true
		default:
			here, above = above[len(above)-1], above[:len(above)-1]
			parent, err := unix.Openat(fd, "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				w.cut = true
				return true
			}
			unix.Close(fd)
			fd = parent
			var st unix.Stat_t
			if unix.Fstat(fd, &st) != nil || st.Ino != here.ino || st.Dev != w.dev {
				w.cut = true
				return true
			}
		}
	}
	return false
}

// enter visits every entry of a folder and keeps the names of subfolders.
func (w *survey) enter(fd int) (l level, on bool) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		w.cut = true
		return l, true
	}
	l.ino = st.Ino
	if w.buf == nil {
		w.buf = make([]byte, 8<<10)
	}
	var names []string
	for {
		n, err := unix.ReadDirent(fd, w.buf)
		if err != nil {
			w.cut = true
		}
		if n <= 0 {
			return l, true
		}
		_, _, names = unix.ParseDirent(w.buf[:n], -1, names[:0])
		for _, name := range names {
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue // removed meanwhile
			}
			if !w.count(name, &st) {
				w.cut = true
				return l, false
			}
			if st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Dev == w.dev {
				l.folders = append(append(l.folders, name...), 0)
			}
		}
	}
}

// count passes an entry to see, and reports whether the walk continues.
func (w *survey) count(name string, st *unix.Stat_t) bool {
	if w.seen++; w.seen%clockEvery == 0 && !w.deadline.IsZero() && time.Now().After(w.deadline) {
		return false
	}
	return w.see(w.path, name, st)
}
