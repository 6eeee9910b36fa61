package within

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights of Landlock. A kernel knows those of its version; see landlock(7).
const (
	readRights  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeRights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	fileRights  = writeRights | unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	firstRights = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1
)

// rightsOf returns the rights over files that a version of Landlock knows.
func rightsOf(version uintptr) uint64 {
	rights := uint64(firstRights)
	for _, later := range []struct {
		version uintptr
		right   uint64
	}{{2, unix.LANDLOCK_ACCESS_FS_REFER}, {3, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}} {
		if version >= later.version {
			rights |= later.right
		}
	}
	return rights
}

// landlock is a second wall behind the view: whatever a command manages to mount or to reach, it writes below the folders of the view that are
// for writing and nowhere else. It reaches no abstract socket of the host either, which a sandbox with the host's network would share, and
// signals nothing outside. A kernel that has none of this, or only a part, leaves it to the view.
func (c Config) landlock() error {
	version, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return nil
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: rightsOf(version)}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	rules, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if e != 0 {
		return e
	}
	defer unix.Close(int(rules))
	allowed := map[string]uint64{"/": readRights, "/proc": writeRights, "/dev": writeRights | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}
	for _, folder := range []string{"/tmp", "/dev/shm"} {
		allowed[folder] = attr.Handled_access_fs
	}
	for _, m := range c.Mounts {
		if !m.ReadOnly {
			allowed[m.Target] = attr.Handled_access_fs
		}
	}
	for path, rights := range allowed {
		if err := allow(int(rules), path, rights&attr.Handled_access_fs); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); e != 0 {
		return e
	}
	return nil
}

// allow adds a rule for a folder and all below it, or for a file.
func allow(rules int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return err
	}
	if info.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0); e != 0 {
		return e
	}
	return nil
}
