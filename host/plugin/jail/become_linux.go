package jail

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A program that somebody writes to is tried again so often: one that the host has just installed is open for writing in each child of the
// host that has not come to its own program yet.
const (
	busyPause = 10 * time.Millisecond
	busyTries = 500
)

// become bounds the process's memory, says so on a pipe, and runs the plugin. The limit is the plugin's, and may be less than what this
// program has already: from then on there is no memory to be had, and Go's runtime ends a program that asks for some. So whatever
// is said and passed on is laid out before, and the rest is system calls. It returns only if the plugin does not start.
func (c Config) become(way int, said Report, grouped error) error {
	var most uint64 // 0: no limit
	limited := Measure{Name: MeasureMemory, Detail: "the manifest sets no run.memory"}
	failed := limited
	if c.Memory > 0 {
		most = allowed(unix.RLIMIT_DATA, uint64(c.Memory)+memorySlack)
		limited.On, limited.Detail = true, fmt.Sprintf("GOMEMLIMIT %d MiB, at most %d MiB of data", c.Memory>>20, most>>20)
		failed.Detail = "the limit is not set"
	}
	var words [2][]byte // without the limit, and with it
	for i, m := range []Measure{failed, limited} {
		text, err := json.Marshal(Report{Measures: append(said.Measures, c.memory(m, grouped))})
		if err != nil {
			return err
		}
		words[i] = append(text, '\n')
	}
	path, err := syscall.BytePtrFromString(c.Path)
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(c.Args)
	if err != nil {
		return err
	}
	env, err := syscall.SlicePtrFromStrings(os.Environ())
	if err != nil {
		return err
	}
	want := unix.Rlimit{Cur: most, Max: most}
	var now unix.Rlimit
	pause := unix.Timespec{Nsec: int64(busyPause)}
	report := words[1]
	if most > 0 {
		unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_DATA, uintptr(unsafe.Pointer(&want)), 0, 0, 0)
		unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_DATA, 0, uintptr(unsafe.Pointer(&now)), 0, 0)
		if now != want {
			report = words[0]
		}
	}
	_, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(way), uintptr(unsafe.Pointer(&report[0])), uintptr(len(report))) // a pipe takes all of it
	for tries := 0; e == 0; tries++ {
		_, _, e = unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
		if e == unix.ETXTBSY && tries < busyTries {
			unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0) // or less: signals of Go's end it
			e = 0
		}
	}
	runtime.KeepAlive(path)
	runtime.KeepAlive(argv)
	runtime.KeepAlive(env)
	return e
}

// allowed is a limit for a resource, or the one that there is if that is lower: it can only be lowered.
func allowed(resource int, most uint64) uint64 {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err == nil && now.Max < most {
		return now.Max
	}
	return most
}
