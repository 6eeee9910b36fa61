package within

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlock keeps the sandbox from the abstract sockets of the host, which one with the host's network would share, and from signalling anything
// outside. A kernel that has none of this leaves it to the namespaces. Which files a command may write to is restricted by the supervisor, once all of them are mounted.
func (c Config) landlock(p *plan) {
	version, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 || version < 6 {
		return
	}
	p.step("restrict sockets and signals")
	attr := &unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL}
	_, rules := p.descriptor(unix.SYS_LANDLOCK_CREATE_RULESET, hold(p, attr), unsafe.Sizeof(*attr), 0)
	p.do(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	p.do(unix.SYS_LANDLOCK_RESTRICT_SELF, 0, 0).with(0, rules)
	p.close(rules)
}

// writable are the files and folders that commands may write to.
func (c Config) writable() []string {
	paths := []string{"/tmp", "/dev/shm"}
	for _, m := range c.Mounts {
		if !m.ReadOnly {
			paths = append(paths, m.Target)
		}
	}
	return paths
}
