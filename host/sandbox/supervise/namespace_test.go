//go:build linux

package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/frame"
	"github.com/flynnhost/flynn/sdk/need"
)

// inNamespace marks the copy of the test program that runs as process 1 of a PID namespace of its own:
// the only place on a machine where the code below may kill.
const inNamespace = "FLYNN_TEST_NAMESPACE"

// TestMain lets this program be those that tests start.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == allocatorWord {
		if err := allocate(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == stopperWord {
		for {
			_ = syscall.Kill(-1, syscall.SIGSTOP)
		}
	}
	os.Exit(m.Run())
}

// stopperWord makes this program stop all that its user may signal, again and again.
const stopperWord = "stopper"

// inside reports whether the test may go on; otherwise it has been run in a namespace already. limit, if
// not 0, is the pids limit there.
func inside(t *testing.T, limit int) bool {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		if os.Getpid() != 1 {
			t.Fatalf("this is process %d, not the first of a namespace", os.Getpid())
		}
		return true
	}
	if os.Geteuid() != 0 {
		need.Part(t, "namespace", fmt.Errorf("PID namespaces need root"))
	}
	script := `exec unshare --pid --fork --mount-proc --kill-child "$@"`
	if limit > 0 {
		group := pidsGroup(t, limit)
		script = fmt.Sprintf(`echo $$ > %s/cgroup.procs && %s`, group, script)
	}
	cmd := exec.Command("/bin/sh", "-c", script, "sh", "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args[4] = exe
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("in the namespace: %v\n%s", err, out)
	}
	return false
}

// pidsGroup makes a cgroup with a pids limit that is removed with the test.
func pidsGroup(t *testing.T, limit int) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
		group := filepath.Join(root, "flynn-test-"+strconv.Itoa(os.Getpid()))
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			poll(30*time.Second, func() bool { return os.Remove(group) == nil })
		})
		if err := os.WriteFile(filepath.Join(group, "pids.max"), []byte(strconv.Itoa(limit)), 0o644); err == nil {
			return group
		}
	}
	need.Part(t, "namespace", fmt.Errorf("no cgroup with a pids limit can be made"))
	return ""
}

// newTestSupervisor is a supervisor without a host, and with a wall if it has paths.
func newTestSupervisor(t *testing.T, w ...string) *supervisor {
	t.Helper()
	hello := frame.HelloBody{UID: 1000, GID: 1000, Workspace: "/"}
	<-warmThreads(spareThreads)
	sp, err := newSpawner()
	if err != nil {
		t.Fatal(err)
	}
	sp.begin(hello, w)
	sp.starts = openStartWatch()
	s := &supervisor{spawner: sp, scanner: scanner{starts: sp.starts}, guard: newGuard(sp)}
	go sp.reap()
	if err := s.guard.park(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *supervisor) startTest(t *testing.T, script string) *child {
	t.Helper()
	null := s.spawner.null
	c, err := s.spawner.start([]string{"/bin/sh", "-c", script}, nil, "/", [3]int{null, null, null})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// gone returns how many are left of a number that a rung of the ladder has left when its time was up: what is killed ends, however
// long that takes where the machine has other work.
func (s *supervisor) gone(left int, such func(tag int) bool) int {
	if left > 0 {
		poll(30*time.Second, func() bool {
			left = s.scanner.count(such)
			return left == 0
		})
	}
	return left
}

// The uid rung kills everything of the workload's user, nothing of root's, and can do so again.
func TestHelperKillsTheWorkloadOnly(t *testing.T) {
	if !inside(t, 0) {
		return
	}
	s := newTestSupervisor(t)
	root := exec.Command("sleep", "100") // as root, like the supervisor itself
	if err := root.Start(); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		a := s.startTest(t, "trap '' TERM; setsid sleep 100 & sleep 100")
		b := s.startTest(t, "sleep 100")
		poll(30*time.Second, func() bool { return len(s.scanner.find(tagIs(a.tag))) >= 3 })
		if left := s.gone(s.endUser(a.tag), tagIs(a.tag)); left != 0 {
			t.Errorf("round %d: %d left", round, left)
		}
		<-a.exited
		<-b.exited
		if a.status.Signal() != syscall.SIGKILL || b.status.Signal() != syscall.SIGKILL {
			t.Errorf("round %d: ended by %v and %v", round, a.status.Signal(), b.status.Signal())
		}
	}
	if err := syscall.Kill(root.Process.Pid, 0); err != nil {
		t.Errorf("root's process is gone: %v", err)
	}
}

// A workload that stops all it may signal does not stop the helper, not even in the moment in which that has its user's
// rights: it would kill nothing then, and nobody would see its end.
func TestHelperIsNotTheWorkloadsToStop(t *testing.T) {
	if !inside(t, 0) {
		return
	}
	s := newTestSupervisor(t)
	for round := range 20 {
		c := s.startStopper(t)
		began := time.Now()
		if left := s.gone(s.endUser(c.tag), tagIs(c.tag)); left != 0 {
			t.Fatalf("round %d: %d left after %v", round, left, time.Since(began))
		}
		<-c.exited
	}
}

// Nor does it keep the supervisor: a process takes the workload's user before it runs its program, and who has forked it
// waits until it does.
func TestStoppedBeforeItsProgram(t *testing.T) {
	if !inside(t, 0) {
		return
	}
	s := newTestSupervisor(t)
	null := s.spawner.null
	stuck := 0
	for began := time.Now(); stuck == 0 && time.Since(began) < 30*time.Second; {
		stopper := s.startStopper(t)
		c, err := s.spawner.start([]string{"/bin/sleep", "100"}, nil, "/", [3]int{null, null, null})
		switch {
		case err == errStopped:
			stuck++
		case err != nil:
			t.Fatal(err)
		default:
			defer func() { <-c.exited }()
		}
		if k := s.end(stopper); k.Survivors != 0 {
			t.Fatalf("the one that stopped it lives: %+v", k)
		}
		<-stopper.exited
	}
	if stuck == 0 {
		t.Error("no process was stopped before its program: nothing was tried")
	}
	if left := s.endUser(0); left != 0 {
		t.Errorf("%d left", left)
	}
}

// startStopper starts a stopper and returns once it is at work.
func (s *supervisor) startStopper(t *testing.T) *child {
	t.Helper()
	victim := s.startTest(t, "exec sleep 100")
	null := s.spawner.null
	c, err := s.spawner.start([]string{"/proc/self/exe", stopperWord}, nil, "/", [3]int{null, null, null})
	if err != nil {
		t.Fatal(err)
	}
	poll(30*time.Second, func() bool { return isStopped(victim.pid) })
	return c
}

// Process ids wrap around. A process that a shell has left is found although the id that was assigned last is the shell's own again
// by the time that anybody looks.
func TestLeftBehindAShellOfTheSameID(t *testing.T) {
	if !inside(t, 0) {
		return
	}
	s := newTestSupervisor(t)
	c := s.startTest(t, "setsid sleep 100 & exit 0") // as long as its group is there its id is, too
	<-c.exited
	// The workload makes processes until it is so; root has a shorter way, on which a thread may come between, before or after.
	var again *child
	for tries := 0; again == nil || again.pid != c.pid || !again.childless || !s.scanner.starts.none(c.pid); tries++ {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(c.pid-1)), 0o644); err != nil {
			need.Part(t, "namespace", err)
		}
		if tries == 1000 {
			t.Fatalf("the id is %d and not %d again, or others come after it", again.pid, c.pid)
		}
		again = s.startTest(t, "exit 0")
		<-again.exited
	}
	if k := s.endLeft(c); k == nil || k.Survivors != 0 {
		t.Errorf("got %+v", k)
	}
	if left := s.scanner.find(tagIs(c.tag)); len(left) != 0 {
		t.Errorf("still alive: %v", left)
	}
	if k := s.endLeft(again); k != nil {
		t.Errorf("of one that had left nothing: %+v", k)
	}
}

func isStopped(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && bytes.Contains(status, []byte("\nState:\tT"))
}

// At the pids limit no process can be made, yet the rungs that need none and the helper, which was
// made before, still work.
func TestKillAtThePidsLimit(t *testing.T) {
	const limit = 120
	if !inside(t, limit) {
		return
	}
	s := newTestSupervisor(t)
	any := func(tag int) bool { return tag >= firstTag }
	for _, c := range []struct {
		name string
		end  func(tag int) int
	}{
		{"uid", s.endUser},
		{"sweep", func(int) int { return s.endAll(any) }},
		{"uid again", s.endUser},
	} {
		last := s.fill(t)
		if left := s.gone(c.end(last.tag), any); left != 0 {
			t.Errorf("%s: %d left", c.name, left)
		}
		poll(30*time.Second, func() bool { return len(s.scanner.find(any)) == 0 })
		if left := s.scanner.find(any); len(left) != 0 {
			t.Errorf("%s: still alive: %v", c.name, left)
		}
	}
}

// fill starts processes until no more can be made and returns the last one.
func (s *supervisor) fill(t *testing.T) *child {
	t.Helper()
	var last *child
	for {
		null := s.spawner.null
		c, err := s.spawner.start([]string{"/bin/sleep", "100"}, nil, "/", [3]int{null, null, null})
		switch {
		case err == nil:
			last = c
		case errors.Is(err, errNoRoom) && last != nil:
			return last
		default:
			t.Fatal(err)
		}
	}
}
