package native_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/internal/cgroup"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest/isolate"
	"github.com/flynnhost/flynn/host/sandbox/native"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// spared is a manager with its driver.
type spared struct {
	*sandbox.Manager
	d *native.Driver
}

func newSpared(t testing.TB, adjust ...func(*sandbox.Config)) spared {
	t.Helper()
	var s spared
	s.Manager = manager(t, append(adjust, func(c *sandbox.Config) { s.d = c.Driver.(*native.Driver) })...)
	return s
}

// awaitSpare waits for a spare process other than these, and returns its id.
func (m spared) awaitSpare(t testing.TB, not ...int) int {
	t.Helper()
	for t.Context().Err() == nil {
		if pid := m.d.Spare(); pid != 0 && !slices.Contains(not, pid) {
			return pid
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("there is no spare process")
	return 0
}

// run starts a session's sandbox, runs a script in it, and returns its process and its output.
func (m spared) run(t *testing.T, session message.WorkspaceKey, of spec.Spec, script string) (pid int, out string) {
	t.Helper()
	before := m.d.Processes()
	s, err := m.Get(t.Context(), session, "default", of)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Exec(t.Context(), machine.Command{Script: script})
	if err != nil || r.ExitCode != 0 {
		t.Errorf("%s: %v, %s", session, err, r.Stderr)
	}
	for id, p := range m.d.Processes() {
		if before[id] == 0 {
			pid = p
		}
	}
	return pid, string(r.Stdout)
}

// TestSpare: a sandbox of the same kind as the one before takes the spare process, with its own workspace, and no other does.
func TestSpare(t *testing.T) {
	if isolate.Test(t) {
		useSpare(t)
	}
}

// TestSpareOfAUser is TestSpare for a user without ranges of ids.
func TestSpareOfAUser(t *testing.T) {
	if asUser(t) {
		useSpare(t)
	}
}

func useSpare(t *testing.T) {
	t.Helper()
	m := newSpared(t)
	first, _ := m.run(t, "web:one", small, "echo one >whose")
	spare := m.awaitSpare(t)
	if list, err := m.d.List(t.Context(), instance); err != nil || len(list) != 1 {
		t.Errorf("the list has %+v, %v", list, err)
	}
	const script = "cat whose 2>/dev/null; echo two >whose; cat whose; tr '\\0' ' ' </proc/1/cmdline; ls /proc/1/fd 2>/dev/null; (echo x >/usr/x) 2>/dev/null || echo; id -u; ls -A /tmp"
	pid, out := m.run(t, "web:two", small, script)
	if pid != spare || pid == first || !strings.HasPrefix(out, "two\n/.flynn-sandboxd ") {
		t.Errorf("process %d, the spare one was %d; it says %q", pid, spare, out)
	}
	if _, again := m.run(t, "web:one", small, "cat whose"); again != "one\n" {
		t.Errorf("the first sandbox has %q", again)
	}

	// Several at once.
	spare = m.awaitSpare(t, spare)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			s, err := m.Get(t.Context(), message.WorkspaceKey(fmt.Sprintf("web:many-%d", i)), "default", small)
			if err != nil {
				t.Error(err)
				return
			}
			want := strconv.Itoa(i) + "\n"
			if r, err := s.Exec(t.Context(), machine.Command{Script: "echo " + strconv.Itoa(i) + " >>f; cat f"}); err != nil || string(r.Stdout) != want {
				t.Errorf("%q, want %q (%v)", r.Stdout, want, err)
			}
		})
	}
	all.Wait()
	pids := slices.Sorted(maps.Values(m.d.Processes()))
	if len(pids) != 6 || len(slices.Compact(slices.Clone(pids))) != 6 || !slices.Contains(pids, spare) {
		t.Errorf("sandboxes have the processes %v; the spare one was %d", pids, spare)
	}
}

// TestSpareOfAnotherKind: a sandbox with other settings gets none, and the next spare process is one of its kind.
func TestSpareOfAnotherKind(t *testing.T) {
	if !isolate.Test(t) {
		return
	}
	m := newSpared(t)
	m.run(t, "web:one", small, "true")
	more, host, elsewhere := small, small, small
	more.MemoryBytes *= 2
	host.Network = "host"
	elsewhere.WorkspaceDir = "/elsewhere"
	var old []int
	for i, other := range []spec.Spec{more, host, elsewhere} {
		spare := m.awaitSpare(t, old...)
		handle, err := unix.PidfdOpen(spare, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(handle)
		if pid, out := m.run(t, message.WorkspaceKey(fmt.Sprintf("web:other-%d", i)), other, "pwd"); pid == spare || out != other.WorkspaceDir+"\n" && other.WorkspaceDir != "" {
			t.Errorf("it has the spare process %d of another kind, and is in %s", pid, out)
		}
		old = append(old, spare)
		m.awaitSpare(t, old...)
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, 0); n != 1 || err != nil {
			t.Errorf("process %d of another kind is still there (%v)", spare, err)
		}
	}
}

// TestSpareOfAnEarlierTime: a spare process whose files of the host were replaced meanwhile, or which has ended, is not used.
func TestSpareOfAnEarlierTime(t *testing.T) {
	if !isolate.Test(t) {
		return
	}
	m := newSpared(t)
	m.run(t, "web:one", small, "true")
	spare := m.awaitSpare(t)
	file := filepath.Join(t.TempDir(), "profile")
	if err := os.WriteFile(file, []byte("# another\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(file, "/etc/profile", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount("/etc/profile", unix.MNT_DETACH)
	if pid, out := m.run(t, "web:two", small, "cat /etc/profile"); pid == spare || out != "# another\n" {
		t.Errorf("process %d, the spare one is %d; it has %q", pid, spare, out)
	}
	next := m.awaitSpare(t, spare)
	handle, err := unix.PidfdOpen(next, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(handle)
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	if n, err := awaitEnd(handle); n != 1 {
		t.Fatal(err)
	}
	if pid, out := m.run(t, "web:three", small, "echo here"); pid == next || out != "here\n" {
		t.Errorf("process %d, which has ended, says %q", pid, out)
	}
	m.awaitSpare(t, spare, next)
}

// awaitEnd waits for the end of a process, for a minute at most.
func awaitEnd(handle int) (n int, err error) {
	for {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, int(time.Minute.Milliseconds()))
		if err != unix.EINTR {
			return n, err
		}
	}
}

// TestSpareHostProcess is no test, but the process of a host that is killed.
func TestSpareHostProcess(t *testing.T) {
	if os.Getenv(spareWord) == "" {
		t.Skip("TestSpareEndsWithItsHost runs this in another process")
	}
	m := newSpared(t)
	m.run(t, "web:one", small, "true")
	fmt.Println("\nspare", m.awaitSpare(t))
	select {}
}

const spareWord = "FLYNN_TEST_SPARE_HOST"

// TestSpareEndsWithItsHost: of a host that is killed no spare process is left, and the next one removes its control groups.
func TestSpareEndsWithItsHost(t *testing.T) {
	if !isolate.Test(t) {
		return
	}
	cmd, id := startHost(t, "TestSpareHostProcess", spareWord+"=1", "spare ")
	pid, err := strconv.Atoi(id)
	if err != nil {
		t.Fatal(err)
	}
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(handle)
	host := cmd.Process.Pid
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if n, err := awaitEnd(handle); n != 1 {
		t.Errorf("the spare process lives on: %d, %v", n, err)
	}
	groups := func() (left []string) {
		for _, controller := range []string{"memory", "pids", "cpu"} {
			if own, _, err := cgroup.Own(controller); err == nil {
				some, _ := filepath.Glob(fmt.Sprintf("%s/flynn-sandboxes/spare-%d-*", own, host))
				left = append(left, some...)
			}
		}
		return left
	}
	for len(groups()) > 0 && t.Context().Err() == nil { // the kernel may still hold a group whose last process was reaped
		if err := open(t, t.TempDir()).Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left := groups(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
