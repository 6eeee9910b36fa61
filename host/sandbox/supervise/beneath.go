//go:build linux

package supervise

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// beneath opens a path below the workspace; no link, not even a magic one, can lead out of it.
// It follows links within. Kernels before 5.6 have no openat2: there a path with any link is refused.
func (f *files) beneath(name string, flags uint64) (int, error) {
	return f.open(f.root, name, flags, 0)
}

// openBeneath is beneath for any folder; resolve adds to what is refused on the way.
func openBeneath(root int, name string, flags, resolve uint64) (int, error) {
	if strings.ContainsRune(name, 0) || len(name) > frame.MaxPath {
		return -1, fail(frame.NotFound, "path is malformed")
	}
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | resolve}
	for range 32 {
		fd, err := unix.Openat2(root, name, &how)
		switch err {
		case unix.EAGAIN: // a rename raced with ".."
			continue
		case unix.ENOSYS, unix.EPERM:
			return walk(root, name, flags)
		}
		return fd, err
	}
	return -1, unix.EAGAIN
}

// walk is openBeneath without openat2, one component at a time.
func walk(root int, name string, flags uint64) (int, error) {
	if name == "" {
		return -1, unix.ENOENT
	}
	at := root
	parts := strings.Split(path.Clean(name), "/")
	for i, part := range parts {
		next, err := -1, error(unix.EXDEV)
		if part != ".." && !path.IsAbs(name) {
			use := uint64(unix.O_PATH | unix.O_DIRECTORY)
			if i == len(parts)-1 {
				use = flags
			}
			next, err = step(at, part, use)
		}
		if at != root {
			unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// step opens one component that must be no link. The kernel says of a link to a folder that it is no folder.
func step(at int, part string, flags uint64) (int, error) {
	fd, err := unix.Openat(at, part, int(flags)|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != unix.ENOTDIR {
		return fd, err
	}
	var st unix.Stat_t
	if unix.Fstatat(at, part, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return -1, unix.ELOOP
	}
	return -1, err
}
