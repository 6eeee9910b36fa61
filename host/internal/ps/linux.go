//go:build linux

package ps

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Own returns the live processes that this user may kill. One that starts meanwhile may be missing.
func Own() ([]Process, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var found []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := Look(pid); ok {
			found = append(found, p)
		}
	}
	return found, nil
}

// Look returns a live process that this user may kill.
func Look(pid int) (Process, bool) {
	name := fmt.Sprintf("/proc/%d", pid)
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil || int(st.Uid) != os.Getuid() && os.Getuid() != 0 {
		return Process{}, false
	}
	return Find(pid)
}

// Find returns a live process, of any user.
func Find(pid int) (Process, bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, false
	}
	p, ok := parseStat(raw)
	p.PID = pid
	return p, ok
}

// parseStat parses /proc/PID/stat (see proc_pid_stat(5)) and reports whether the process lives. The name in parentheses may itself contain
// parentheses and spaces, so the fields are read after the last parenthesis.
func parseStat(raw []byte) (Process, bool) {
	const state, parent, group, session, started = 0, 1, 2, 3, 19
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) <= started || string(fields[state]) == "Z" || string(fields[state]) == "X" {
		return Process{}, false
	}
	var p Process
	var errs [4]error
	p.Parent, errs[0] = strconv.Atoi(string(fields[parent]))
	p.Group, errs[1] = strconv.Atoi(string(fields[group]))
	p.Session, errs[2] = strconv.Atoi(string(fields[session]))
	p.Started, errs[3] = strconv.ParseInt(string(fields[started]), 10, 64)
	return p, errors.Join(errs[:]...) == nil
}

// Environ returns the environment with which a process was executed; nil if it has ended or may not be read.
func Environ(pid int) [][]byte {
	f, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, maxEnviron)) // a part serves as well
	if len(text) == 0 {
		return nil
	}
	return bytes.Split(bytes.TrimRight(text, "\x00"), []byte{0})
}

// End kills a process if recognised returns true for it, and reports whether it did. The process that is killed is the recognised one.
func End(pid int, recognised func() bool) bool {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false // gone, or ENOSYS before Linux 5.3: better report a survivor than kill a stranger
	}
	defer unix.Close(handle)
	return recognised() && unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0) == nil
}

// AwaitExit returns when a child has ended and before it is reaped: until then no other process can have its pid or group id.
func AwaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
