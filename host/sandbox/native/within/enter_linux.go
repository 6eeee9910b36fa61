package within

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/sandbox/callfilter"
)

// The capabilities that the supervisor keeps. With a user of its own, it becomes the workload's and signals it. With one user for both, it
// makes the namespaces by which it recognises a command's processes, and looks at those; and it takes all of them from what it starts.
const (
	KeptCapabilities   = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL
	SingleCapabilities = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_KILL | 1<<unix.CAP_SETPCAP
)

// maxConfig bounds the Config in JSON.
const maxConfig = 1 << 20

// ownSlack is the timer slack, in nanoseconds, that the supervisor gives itself by another execution of its program unless it has it already.
const ownSlack = 1_000_000

// Enter sets the sandbox up and executes its supervisor. It returns only with an error, which it has reported.
func Enter() error {
	runtime.LockOSThread() // what is dropped belongs to a thread, and this one executes the supervisor
	unix.CloseOnExec(ConfigFD)
	unix.CloseOnExec(ReportFD)
	err := enter()
	if err != nil {
		_, _ = io.WriteString(os.NewFile(ReportFD, "report"), err.Error())
	}
	return err
}

func enter() error {
	// The host writes the Config once it has mapped the ids and put the process into its control groups.
	text, err := io.ReadAll(io.LimitReader(os.NewFile(ConfigFD, "config"), maxConfig))
	if err != nil {
		return fmt.Errorf("read the sandbox's configuration: %w", err)
	}
	var c Config
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("read the sandbox's configuration: %w", err)
	}
	if os.Getpid() != 1 {
		return fmt.Errorf("only package native starts this: it is process %d, not 1", os.Getpid())
	}
	for _, step := range []struct {
		doing string
		do    func() error
	}{
		{"become root of the sandbox", c.becomeRoot},
		{"name the sandbox", func() error { return unix.Sethostname([]byte("sandbox")) }},
		{"start the loopback interface", c.loopback},
		{"make the view of files", c.view},
		{"limit resources", c.limit},
		{"restrict files and signals", c.landlock},
		{"drop privileges", c.drop},
		{"restrict system calls", func() error { return callfilter.Restrict(c.Single) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.doing, err)
		}
	}
	if c.Probe {
		os.Exit(0)
	}
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, ownSlack, 0, 0, 0) // a failure only costs time
	if err := unix.Exec(c.Argv[0], c.Argv, environment()); err != nil {
		return fmt.Errorf("execute %s: %w", c.Argv[0], err)
	}
	return nil
}

// environment is that of the supervisor, of which commands get a part. Nothing of the host's is in it.
func environment() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"}
}

// becomeRoot takes id 0, which the host has mapped, in this thread.
func (c Config) becomeRoot() error {
	if c.Single {
		return nil
	}
	for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
		if _, _, e := unix.RawSyscall(call, 0, 0, 0); e != 0 {
			return e
		}
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); e != 0 {
		return fmt.Errorf("drop the host user's groups: %w", e)
	}
	return nil
}

// loopback starts the interface lo, as engines do.
func (c Config) loopback() error {
	if !c.Loopback {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// limit sets resource limits, which everything that runs inside inherits.
func (c Config) limit() error {
	set := func(resource int, most uint64) error {
		return unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most})
	}
	err := set(unix.RLIMIT_CORE, 0)
	if c.Processes > 0 {
		err = errors.Join(err, set(unix.RLIMIT_NPROC, c.Processes))
	}
	return err
}

// drop takes away every capability but those that are kept, for good.
func (c Config) drop() error {
	kept := uint32(KeptCapabilities)
	if c.Single {
		kept = SingleCapabilities
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for n := uintptr(0); ; n++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, n, 0, 0, 0)
		if err != nil {
			break // the last one that the kernel knows was before
		}
		if has == 1 && kept&(1<<n) == 0 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, n, 0, 0, 0); err != nil {
				return fmt.Errorf("drop capability %d: %w", n, err)
			}
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: kept, Permitted: kept}}
	if c.Single { // root keeps its capabilities when it executes a program, another user keeps ambient ones
		data[0].Inheritable = kept
	}
	if _, _, e := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0); e != 0 {
		return fmt.Errorf("drop capabilities: %w", e)
	}
	for n := uintptr(0); c.Single && n < 32; n++ {
		if kept&(1<<n) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, n, 0, 0); err != nil {
			return fmt.Errorf("keep capability %d: %w", n, err)
		}
	}
	return nil
}
