package machine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openHost opens a host over an empty workspace; a stubborn command gets little patience.
func openHost(t *testing.T, c machine.HostConfig) *machine.Host {
	t.Helper()
	if c.Workspace == "" {
		c.Workspace = t.TempDir()
	}
	if c.Homes == "" {
		c.Homes = t.TempDir()
	}
	if c.Grace == 0 {
		c.Grace = 200 * time.Millisecond
	}
	h, err := machine.NewHost(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return h
}

func run(t *testing.T, h *machine.Host, script string) machine.Result {
	t.Helper()
	r, err := h.Exec(t.Context(), machine.Command{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestHostConformance(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	machinetest.Run(t, func(t *testing.T) machine.Machine { return openHost(t, machine.HostConfig{}) })
}

func TestNewHostRefusals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, workspace := range map[string]string{"none": "", "relative": "work", "missing": "/no/such/folder", "file": file} {
		if h, err := machine.NewHost(machine.HostConfig{Workspace: workspace, Homes: t.TempDir()}); err == nil {
			h.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

func TestHostEnvironment(t *testing.T) {
	t.Setenv("FLYNN_TEST_SECRET", "secret")
	h := openHost(t, machine.HostConfig{})
	env := string(run(t, h, "env").Stdout)
	for _, name := range []string{"PATH=", "HOME=", "LANG=C.UTF-8", "TERM=dumb"} {
		if !strings.Contains(env, name) {
			t.Errorf("environment lacks %s", name)
		}
	}
	for _, name := range []string{"secret", "FLYNN_TEST_SECRET", "GOPATH", "USER="} {
		if strings.Contains(env, name) {
			t.Errorf("environment holds %s", name)
		}
	}
	r, err := h.Exec(t.Context(), machine.Command{Script: "echo $LANG $FLYNN_COMMAND", Env: map[string]string{"LANG": "de_DE", "FLYNN_COMMAND": "mine"}})
	if got := string(r.Stdout); err != nil || !strings.HasPrefix(got, "de_DE ") || strings.Contains(got, "mine") {
		t.Errorf("the command's own variables give %q, error %v; want LANG taken and the marker kept", got, err)
	}
}

func TestWorkspaceBehindALink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	h := openHost(t, machine.HostConfig{Workspace: link})
	if err := h.WriteFile(t.Context(), filepath.Join(link, "a"), []byte("x"), 0); err != nil {
		t.Error(err)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := h.ReadFile(t.Context(), filepath.Join(resolved, "a"), 0, 10); err != nil || string(got) != "x" {
		t.Errorf("read %q, error %v", got, err)
	}
}

func TestWriteFollowsALinkThatStaysInside(t *testing.T) {
	h := openHost(t, machine.HostConfig{})
	run(t, h, "mkdir d; echo old >d/real; chmod 600 d/real; ln -s d/real link; ln -s link second")
	if err := h.WriteFile(t.Context(), "second", []byte("new"), 0); err != nil {
		t.Fatal(err)
	}
	if got := string(run(t, h, "cat d/real; stat -c ' %a' d/real; readlink second").Stdout); got != "new 600\nlink\n" {
		t.Errorf("after the write: %q; want new content, the old mode, the link kept", got)
	}
}

func TestErrorsDoNotNameTheHostsPaths(t *testing.T) {
	dir := t.TempDir()
	h := openHost(t, machine.HostConfig{Workspace: dir})
	run(t, h, "mkdir d; ln -s / out; ln -s loop loop")
	for _, path := range []string{"missing", "d", "out/etc", "loop", "d/x/y"} {
		_, _, readErr := h.ReadFile(t.Context(), path, 0, 1)
		_, listErr := h.List(t.Context(), path)
		for _, err := range []error{readErr, listErr} {
			if err != nil && strings.Contains(err.Error(), dir) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

func TestScriptTooLong(t *testing.T) {
	h := openHost(t, machine.HostConfig{})
	if _, err := h.Exec(t.Context(), machine.Command{Script: ": " + strings.Repeat("x", 128<<10)}); err == nil || !strings.Contains(err.Error(), "file") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
	if r := run(t, h, ": "+strings.Repeat("x", 128<<10-3)); r.ExitCode != 0 {
		t.Errorf("the longest command that fits: %+v", r)
	}
}

// TestRungs checks that the result names what it took.
func TestRungs(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	const timeout = 2 * time.Second // until when the traps are set
	const brief, ample = 200 * time.Millisecond, time.Minute
	for _, c := range []struct {
		name, script, rung, signal string
		grace                      time.Duration // ample where the leader goes at TERM, however slow the machine is
	}{
		{"goes at TERM", "exec sleep 1000", "term", "SIGTERM", ample},
		{"ends by itself at TERM", "trap 'exit 3' TERM; while :; do sleep 0.01; done", "term", "", ample},
		{"ignores TERM", "trap '' TERM; while :; do sleep 0.01; done", "kill", "SIGKILL", brief},
		{"child ignores TERM", "(trap '' TERM; while :; do sleep 0.01; done) & exec sleep 1000", "kill", "SIGTERM", ample},
		{"child left the session", "setsid sleep 1000 </dev/null >/dev/null 2>&1 & exec sleep 1000", "sweep", "SIGTERM", ample},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := openHost(t, machine.HostConfig{Grace: c.grace})
			r, err := h.Exec(t.Context(), machine.Command{Script: c.script, Timeout: timeout})
			if err != nil {
				t.Fatal(err)
			}
			if r.Kill == nil || r.Kill.Rung != c.rung || r.Kill.Survivors != 0 || r.Kill.Took <= 0 || r.Signal != c.signal || !r.TimedOut {
				t.Errorf("got %+v, kill %+v; want rung %s, signal %q", r, r.Kill, c.rung, c.signal)
			}
		})
	}
}

// TestEscapeeDoesNotHoldTheCall has a process that wipes its environment and leaves the session, with the output
// pipe in its hand: the call must return all the same.
func TestEscapeeDoesNotHoldTheCall(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	h := openHost(t, machine.HostConfig{})
	began := time.Now()
	r := run(t, h, "env -i PATH=$PATH setsid sh -c 'sleep 0.05; exec sleep 1000' & sleep 0.02; echo out")
	if string(r.Stdout) != "out\n" || time.Since(began) > 20*time.Second {
		t.Errorf("stdout %q after %v", r.Stdout, time.Since(began))
	}
}

func TestMaxTimeout(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	h := openHost(t, machine.HostConfig{MaxTimeout: 200 * time.Millisecond, DefaultTimeout: time.Hour})
	for name, timeout := range map[string]time.Duration{"asked for more": time.Hour, "default is more": 0} {
		r, err := h.Exec(t.Context(), machine.Command{Script: "sleep 1000", Timeout: timeout})
		if err != nil || !r.TimedOut {
			t.Errorf("%s: %+v, error %v; want timed out", name, r, err)
		}
	}
}

func TestContextDeadlineIsATimeout(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	h := openHost(t, machine.HostConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // until when the command has begun
	defer cancel()
	r, err := h.Exec(ctx, machine.Command{Script: "sleep 1000"})
	if err != nil || !r.TimedOut || r.Canceled {
		t.Errorf("got %+v, error %v; want timed out", r, err)
	}
}

func TestBackgroundProcessLimit(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	const limit = 32
	h := openHost(t, machine.HostConfig{})
	start := func(script string) (machine.Process, error) {
		return h.Start(t.Context(), machine.Command{Script: script})
	}
	first, err := start("exit 0")
	if err != nil {
		t.Fatal(err)
	}
	for running(t, h, first.ID) {
		<-time.After(time.Millisecond)
	}
	for range limit - 1 {
		if _, err := start("exec sleep 1000"); err != nil {
			t.Fatal(err)
		}
	}
	last, err := start("exec sleep 1000")
	if err != nil {
		t.Fatalf("an ended process must make room: %v", err)
	}
	if _, err := h.Output(t.Context(), first.ID, 0, 1); !errors.Is(err, machine.ErrNotFound) {
		t.Errorf("the process that made room: %v, want not found", err)
	}
	if _, err := start("true"); err == nil || !strings.Contains(err.Error(), "kill one") {
		t.Errorf("one too many: %v, want an error that says what to do", err)
	}
	if _, err := h.Kill(t.Context(), last.ID); err != nil {
		t.Fatal(err)
	}
	if p, err := start("true"); err != nil || p.ID == last.ID {
		t.Errorf("after a kill: %+v, error %v", p, err)
	}
}

func running(t *testing.T, h *machine.Host, id string) bool {
	t.Helper()
	list, err := h.Processes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.ID == id {
			return p.Running
		}
	}
	t.Fatalf("no process %s", id)
	return false
}

func TestBackgroundOutputIsInOrder(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	h := openHost(t, machine.HostConfig{})
	p, err := h.Start(t.Context(), machine.Command{Script: "for i in 1 2 3 4 5; do echo $i; echo $i >&2; done"})
	if err != nil {
		t.Fatal(err)
	}
	for running(t, h, p.ID) {
		<-time.After(time.Millisecond)
	}
	if out, err := h.Output(t.Context(), p.ID, 0, 100); err != nil || string(out.Data) != "1\n1\n2\n2\n3\n3\n4\n4\n5\n5\n" {
		t.Errorf("output %q, error %v", out.Data, err)
	}
}

func TestBackgroundTimeout(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	h := openHost(t, machine.HostConfig{})
	p, err := h.Start(t.Context(), machine.Command{Script: "sleep 1000", Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for running(t, h, p.ID) {
		<-time.After(time.Millisecond)
	}
	if p, err = h.Kill(t.Context(), p.ID); err != nil || !p.Result.TimedOut {
		t.Errorf("process %+v, error %v; want timed out", p.Result, err)
	}
}

func TestCloseEndsEverything(t *testing.T) {
	if !machinetest.Isolate(t) {
		return
	}
	dir := t.TempDir()
	h, err := machine.NewHost(machine.HostConfig{Workspace: dir, Homes: t.TempDir(), Grace: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(t.Context(), machine.Command{Script: "echo $$ >>pids; exec sleep 1000"}); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	var once sync.Once
	var all sync.WaitGroup
	all.Go(func() {
		r, err := h.Exec(t.Context(), machine.Command{
			Script:   "until [ -s pids ]; do sleep 0.01; done; echo $$ >>pids; echo ready; exec sleep 1000",
			Progress: func(machine.Stream, []byte) { once.Do(func() { close(ready) }) },
		})
		if err != nil || !r.Canceled {
			t.Errorf("command at the end: %+v, error %v; want canceled", r, err)
		}
	})
	<-ready
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
	pids, err := os.ReadFile(filepath.Join(dir, "pids"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(string(pids))); n != 2 {
		t.Errorf("%d processes had started, want 2", n)
	}
	for _, pid := range strings.Fields(string(pids)) {
		if state, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil {
			t.Errorf("process %s outlived its machine: %s", pid, state)
		}
	}
	if _, err := h.Exec(t.Context(), machine.Command{Script: "true"}); err == nil {
		t.Error("a closed machine ran a command")
	}
	if _, err := h.Start(t.Context(), machine.Command{Script: "true"}); err == nil {
		t.Error("a closed machine started a process")
	}
}

func TestFailedWriteLeavesNothing(t *testing.T) {
	h := openHost(t, machine.HostConfig{})
	if err := h.WriteFile(t.Context(), "big", make([]byte, 64<<20+1), 0); !errors.Is(err, machine.ErrTooLarge) {
		t.Errorf("write of too much: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.WriteFile(ctx, "late", nil, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("write after the end: %v", err)
	}
	if list, err := h.List(t.Context(), "."); err != nil || len(list) != 0 {
		t.Errorf("left behind: %v, error %v", list, err)
	}
}
