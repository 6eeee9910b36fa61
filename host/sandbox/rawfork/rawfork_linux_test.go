package rawfork

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/sdk/need"
)

type pipeEnd struct {
	fd   uintptr
	text [5]byte
}

//go:nosplit
//go:norace
func writeText(arg unsafe.Pointer) {
	p := (*pipeEnd)(arg)
	syscall.RawSyscall(unix.SYS_WRITE, p.fd, uintptr(unsafe.Pointer(&p.text)), uintptr(len(p.text)))
}

// run starts a process in a group, and returns what it wrote.
func run(t *testing.T, group int) (string, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	pid, err := Start(0, group, writeText, unsafe.Pointer(&pipeEnd{w.Fd(), [5]byte{'h', 'e', 'l', 'l', 'o'}}))
	if err != nil {
		return "", err
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil || !status.Exited() || status.ExitStatus() != 1 {
		t.Errorf("it ended with %v, %v", status, err)
	}
	text := make([]byte, 8)
	n, _ := r.Read(text)
	return string(text[:n]), nil
}

func TestStart(t *testing.T) {
	for range 50 {
		if text, err := run(t, Anywhere); text != "hello" || err != nil {
			t.Fatalf("%q, %v", text, err)
		}
	}
	if text, err := run(t, 1<<20); err == nil {
		t.Errorf("in a group that is none: %q", text)
	}
}

//go:nosplit
//go:norace
func waitForInput(arg unsafe.Pointer) {
	p := (*pipeEnd)(arg)
	syscall.RawSyscall(unix.SYS_READ, p.fd, uintptr(unsafe.Pointer(&p.text)), 1)
}

// TestGroup starts a process in a group of version 2.
func TestGroup(t *testing.T) {
	var dir string
	var err error
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		dir = filepath.Join(root, "flynn-rawfork-"+strconv.Itoa(os.Getpid()))
		if _, err = os.Stat(filepath.Join(root, "cgroup.procs")); err == nil {
			if err = os.Mkdir(dir, 0o755); err == nil {
				break
			}
		}
	}
	need.Part(t, "cgroup2", err)
	t.Cleanup(func() { _ = unix.Rmdir(dir) })
	group, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pid, err := Start(0, int(group.Fd()), waitForInput, unsafe.Pointer(&pipeEnd{fd: r.Fd()}))
	if err != nil {
		need.Part(t, "cgroup2", err)
	}
	members, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil || strings.TrimSpace(string(members)) != strconv.Itoa(pid) {
		t.Errorf("in the group is %q, want %d (%v)", members, pid, err)
	}
	if _, err := w.Write([]byte{1}); err != nil {
		t.Error(err)
	}
	w.Close()
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		t.Error(err)
	}
}
