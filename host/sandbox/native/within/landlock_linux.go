package within

import (
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
func (c Config) landlock(p *plan) {
	version, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return
	}
	p.step("restrict files and signals")
	attr := &unix.LandlockRulesetAttr{Handled_access_fs: rightsOf(version)}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	_, rules := p.descriptor(unix.SYS_LANDLOCK_CREATE_RULESET, hold(p, attr), unsafe.Sizeof(*attr), 0)
	allow := func(path string, rights uint64) {
		if p.paths[clean(path)] == file {
			rights &= fileRights
		}
		beneath := &unix.LandlockPathBeneathAttr{Allowed_access: rights & attr.Handled_access_fs}
		p.open(path, &beneath.Parent_fd)
		p.do(unix.SYS_LANDLOCK_ADD_RULE, 0, unix.LANDLOCK_RULE_PATH_BENEATH, hold(p, beneath), 0).with(0, rules)
		p.close(&beneath.Parent_fd)
	}
	allow("/", readRights)
	allow("/proc", writeRights)
	allow("/dev", writeRights|unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
	allow("/tmp", attr.Handled_access_fs)
	allow("/dev/shm", attr.Handled_access_fs)
	for _, m := range c.Mounts {
		if !m.ReadOnly {
			allow(m.Target, attr.Handled_access_fs)
		}
	}
	p.do(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	p.do(unix.SYS_LANDLOCK_RESTRICT_SELF, 0, 0).with(0, rules)
	p.close(rules)
}
