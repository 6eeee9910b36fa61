//go:build linux

package supervise

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

// wall has the files and folders that commands may write to; nil for no wall. It is a second one behind the view of files: whatever a command
// manages to mount or to reach, it writes below these and nowhere else. A kernel that has no Landlock, or only a part, leaves it to the view.
//
// The wall is around the threads that start commands and open files for the host, and around what those start. The kernel gives each thread that
// restricts itself a wall of its own, and a process signals nobody beyond its wall, so the threads that end commands stay outside.
type wall []string

// enclose restricts this thread, and what it starts, for good.
func (w wall) enclose() error {
	if w == nil {
		return nil
	}
	version, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return nil
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: rightsOf(version)}
	rules, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if e != 0 {
		return fmt.Errorf("restrict files: %w", e)
	}
	defer unix.Close(int(rules))
	type rule struct {
		path   string
		rights uint64
	}
	all := []rule{{"/", readRights}, {"/proc", writeRights}, {"/dev", writeRights | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}}
	for _, path := range w {
		all = append(all, rule{path, attr.Handled_access_fs})
	}
	for _, r := range all {
		if err := allow(int(rules), r.path, r.rights&attr.Handled_access_fs); err != nil {
			return fmt.Errorf("restrict files at %s: %w", r.path, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("restrict files: %w", err)
	}
	if _, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); e != 0 {
		return fmt.Errorf("restrict files: %w", e)
	}
	return nil
}

// allow adds a rule. No command has run yet that could replace the path.
func allow(rules int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0); e != 0 {
		return e
	}
	return nil
}
