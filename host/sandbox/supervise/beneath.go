//go:build linux

package supervise

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// beneath opens a path below the workspace, following links within it; no link, not even a magic one, can lead out. Kernels before 5.6 and
// gVisor have no openat2, and use walk.
func (f *files) beneath(name string, flags uint64) (int, error) {
	return f.open(f.root, name, flags, 0)
}

// openBeneath is beneath for any folder; resolve adds restrictions on the way.
func openBeneath(root int, name string, flags, resolve uint64) (int, error) {
	if strings.ContainsRune(name, 0) || len(name) > frame.MaxPath {
		return -1, fail(frame.NotFound, "path is malformed")
	}
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | resolve}
	for range 32 {
		fd, err := unix.Openat2(root, name, &how)
		if err == unix.ENOSYS || err == unix.EPERM {
			fd, err = walk(root, name, flags, resolve)
		}
		if err != unix.EAGAIN { // another process renamed something on the way
			return fd, err
		}
	}
	return -1, unix.EAGAIN
}

const (
	// maxHops bounds the links of a path, as in the kernel.
	maxHops = 40
	// maxHeld bounds the folders that walk holds open.
	maxHeld = 256
)

// walk is openBeneath without openat2: it takes one step at a time and resolves links itself. The folders that it holds open are all below
// root, even if names change meanwhile.
func walk(root int, name string, flags, resolve uint64) (int, error) {
	w := &walker{root: root, rest: strings.Split(name, "/")}
	defer w.close()
	if name == "" {
		return -1, unix.ENOENT
	}
	if path.IsAbs(name) {
		return -1, unix.EXDEV
	}
	for links := 0; ; {
		fd, err := w.step(flags)
		if err != unix.ELOOP {
			if err != nil || fd >= 0 {
				return fd, err
			}
			continue
		}
		if links++; links > maxHops || resolve&unix.RESOLVE_NO_SYMLINKS != 0 {
			return -1, unix.ELOOP
		}
		if err := w.follow(); err != nil {
			return -1, err
		}
	}
}

// walker is the state of a walk; it holds the visited folders open.
type walker struct {
	root  int
	above []int // below root, outermost first
	rest  []string
}

func (w *walker) close() {
	for _, fd := range w.above {
		unix.Close(fd)
	}
}

func (w *walker) at() int {
	if len(w.above) == 0 {
		return w.root
	}
	return w.above[len(w.above)-1]
}

// step takes the next part of the path. It returns the descriptor at the end, -1 before, and ELOOP at a link, which it does not pass.
func (w *walker) step(flags uint64) (int, error) {
	part, last := w.rest[0], len(w.rest) == 1
	switch {
	case part == "..":
		if len(w.above) == 0 {
			return -1, unix.EXDEV
		}
		unix.Close(w.at())
		w.above = w.above[:len(w.above)-1]
		part = "."
	case part == "":
		part = "."
	}
	if !last && part != "." {
		if len(w.above) == maxHeld {
			return -1, unix.ENAMETOOLONG
		}
		fd, err := open(w.at(), part, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return -1, err
		}
		w.above = append(w.above, fd)
	}
	if last {
		return open(w.at(), part, flags)
	}
	w.rest = w.rest[1:]
	return -1, nil
}

// follow replaces the name of a link by its target.
func (w *walker) follow() error {
	var text [frame.MaxPath + 1]byte
	n, err := unix.Readlinkat(w.at(), w.rest[0], text[:])
	if err == unix.EINVAL {
		return unix.EAGAIN // it is not a link any more
	}
	if err != nil {
		return err
	}
	if n == 0 || n > frame.MaxPath || text[0] == '/' {
		return unix.EXDEV
	}
	w.rest = append(strings.Split(string(text[:n]), "/"), w.rest[1:]...)
	return nil
}

// open opens an entry that is not a link, and returns ELOOP for a link. It checks what it has opened, because O_PATH opens links too, and
// gVisor follows those to folders.
func open(at int, part string, flags uint64) (int, error) {
	var before, after unix.Stat_t
	if err := unix.Fstatat(at, part, &before, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	if before.Mode&unix.S_IFMT == unix.S_IFLNK {
		return -1, unix.ELOOP
	}
	fd, err := unix.Openat(at, part, int(flags)|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Fstat(fd, &after); err != nil || before.Dev != after.Dev || before.Ino != after.Ino {
		unix.Close(fd)
		return -1, unix.EAGAIN
	}
	return fd, nil
}
