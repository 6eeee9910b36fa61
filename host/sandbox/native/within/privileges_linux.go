package within

import (
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// The capabilities that the supervisor keeps. With a user of its own, it becomes the workload's and signals it. With one user for both, it
// makes the namespaces by which it recognises a command's processes, and looks at those; and it takes all of them from what it starts.
const (
	KeptCapabilities   = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL
	SingleCapabilities = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_KILL
)

// ownSlack is the timer slack, in nanoseconds, that the supervisor gives itself by another execution of its program unless it has it already.
const ownSlack = 1_000_000

// environment is that of the supervisor, of which commands get a part. Nothing of the host's is in it. Go's runtime would read files of /proc
// for its number of processors, and takes no advice from an image.
func (c Config) environment() []string {
	processors := runtime.NumCPU()
	if c.CPUs > 0 {
		processors = min(processors, int(math.Ceil(c.CPUs)))
	}
	env := []string{"GOMAXPROCS=" + strconv.Itoa(max(processors, 2)), "GODEBUG=containermaxprocs=0"}
	path := "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
	for _, variable := range c.Env {
		switch name, _, is := strings.Cut(variable, "="); {
		case !is, strings.HasPrefix(name, "GO"), strings.ContainsRune(variable, 0):
		case name == "PATH":
			path = variable
		default:
			env = append(env, variable)
		}
	}
	return append(env, path)
}

// becomeRoot takes id 0, which the host has mapped.
func (c Config) becomeRoot(p *plan) {
	if c.Single {
		return
	}
	p.step("become root of the sandbox")
	p.do(unix.SYS_SETRESGID, 0, 0, 0)
	p.do(unix.SYS_SETRESUID, 0, 0, 0)
	p.do(unix.SYS_SETGROUPS, 0, 0)
}

// limit sets resource limits, which everything that runs inside inherits.
func (c Config) limit(p *plan) {
	p.step("limit resources")
	set := func(resource uintptr, most uint64) {
		p.do(unix.SYS_PRLIMIT64, 0, resource, hold(p, &unix.Rlimit{Cur: most, Max: most}), 0)
	}
	set(unix.RLIMIT_CORE, 0)
	if c.Processes > 0 {
		set(unix.RLIMIT_NPROC, c.Processes)
	}
}

// drop takes away every capability but those that are kept, for good.
func (c Config) drop(p *plan) {
	p.step("drop privileges")
	kept := uint32(KeptCapabilities)
	if c.Single {
		kept = SingleCapabilities
	}
	p.do(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	p.do(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	set := func(permitted, inheritable uint32) {
		data := &[2]unix.CapUserData{{Effective: permitted, Permitted: permitted, Inheritable: inheritable}}
		p.do(unix.SYS_CAPSET, hold(p, &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}), hold(p, data))
	}
	if !c.Single {
		p.bound(kept)
		set(kept, 0)
		return
	}
	// Root keeps its capabilities when it executes a program, another user keeps ambient ones. Those need not be in the bounding set, so commands
	// could not even be given them; only to become inheritable they have to be in it.
	set(kept|1<<unix.CAP_SETPCAP, kept)
	p.bound(0)
	set(kept, kept)
	for n := range uintptr(32) {
		if kept&(1<<n) != 0 {
			p.do(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, n)
		}
	}
}

// bound removes every other capability from the bounding set.
func (p *plan) bound(kept uint32) {
	for n := range uintptr(capabilities()) {
		if kept&(1<<n) == 0 {
			p.do(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, n)
		}
	}
}

// capabilities returns how many the kernel knows.
var capabilities = sync.OnceValue(func() int {
	for n := range 64 {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(n), 0, 0, 0); err != nil {
			return n
		}
	}
	return 64
})
