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

// Executing a program fails while it is open for writing, and is then tried again: one that the host has just installed is still open in
// each child of the host that has not reached its own exec yet.
const (
	busyPause = 10 * time.Millisecond
	busyTries = 500
)

// become limits the process's memory, reports that on a pipe, and executes the plugin. The limit is the plugin's, and may be lower than
// what this process already uses: from then on no memory can be allocated, and Go's runtime would end the process if it tried. So everything
// is allocated before, and the rest is system calls. become returns only if the plugin does not start.
func (c Config) become(way int, said Report, grouped error) error {
	var most uint64 // 0: no limit
	limited := Measure{Name: MeasureMemory, Detail: "the manifest sets no run.memory"}
	failed := limited
	if c.Memory > 0 {
		most = allowed(unix.RLIMIT_DATA, uint64(c.Memory)+memorySlack)
		limited.On, limited.Detail = true, fmt.Sprintf("GOMEMLIMIT %d MiB, at most %d MiB of data", c.Memory>>20, most>>20)
		failed.Detail = "the limit is not set"
	}
	var reports [2][]byte // without the limit, and with it
	for i, m := range []Measure{failed, limited} {
		text, err := json.Marshal(Report{Measures: append(said.Measures, c.memory(m, grouped))})
		if err != nil {
			return err
		}
		reports[i] = append(text, '\n')
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
	report := reports[1]
	if most > 0 {
		unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_DATA, uintptr(unsafe.Pointer(&want)), 0, 0, 0)
		unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_DATA, 0, uintptr(unsafe.Pointer(&now)), 0, 0)
		if now != want {
			report = reports[0]
		}
	}
	_, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(way), uintptr(unsafe.Pointer(&report[0])), uintptr(len(report))) // fits the pipe
	for tries := 0; e == 0; tries++ {
		_, _, e = unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
		if e == unix.ETXTBSY && tries < busyTries {
			unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0) // signals of Go's runtime may cut it short
			e = 0
		}
	}
	runtime.KeepAlive(path)
	runtime.KeepAlive(argv)
	runtime.KeepAlive(env)
	return e
}

// allowed is most, or the current limit of a resource if that is lower: limits can only be lowered.
func allowed(resource int, most uint64) uint64 {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err == nil && now.Max < most {
		return now.Max
	}
	return most
}
