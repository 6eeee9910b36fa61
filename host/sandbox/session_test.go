package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// open returns a session of a Manager of its own.
func open(t testing.TB, adjust ...func(*sandbox.Config)) *sandbox.Session {
	t.Helper()
	m, config := sandboxtest.Engine(t).Manager(t, adjust...)
	return get(t, m, "chat:1", config.Spec)
}

func get(t testing.TB, m *sandbox.Manager, session message.WorkspaceKey, spec spec.Spec) *sandbox.Session {
	t.Helper()
	s, err := m.Get(t.Context(), session, "default", spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a script and insists on a result.
func run(t testing.TB, m machine.Machine, cmd machine.Command) machine.Result {
	t.Helper()
	r, err := m.Exec(context.WithoutCancel(t.Context()), cmd)
	if err != nil {
		t.Fatalf("run %.60q: %v", cmd.Script, err)
	}
	return r
}

// shell runs a script that must succeed and returns its stdout.
func shell(t testing.TB, m machine.Machine, script string) string {
	t.Helper()
	r := run(t, m, machine.Command{Script: script})
	if r.ExitCode != 0 {
		t.Fatalf("run %.60q: exit %d, signal %q, stderr %s", script, r.ExitCode, r.Signal, r.Stderr)
	}
	return string(r.Stdout)
}

func TestExec(t *testing.T) {
	s := open(t)
	for _, c := range []struct {
		name string
		cmd  machine.Command
		want machine.Result
	}{
		{"stdout", machine.Command{Script: "echo hello"}, machine.Result{Stdout: []byte("hello\n")}},
		{"stderr and code", machine.Command{Script: "echo oops >&2; exit 3"}, machine.Result{ExitCode: 3, Stderr: []byte("oops\n")}},
		{"code 126", machine.Command{Script: "touch f; ./f"}, machine.Result{ExitCode: 126, Stderr: []byte("/bin/sh: ./f: Permission denied\n")}},
		{"code 127", machine.Command{Script: "nosuch"}, machine.Result{ExitCode: 127, Stderr: []byte("/bin/sh: nosuch: not found\n")}},
		{"code 130", machine.Command{Script: "exit 130"}, machine.Result{ExitCode: 130}},
		{"code 137 is no signal", machine.Command{Script: "exit 137"}, machine.Result{ExitCode: 137}},
		{"code 255", machine.Command{Script: "exit 255"}, machine.Result{ExitCode: 255}},
		{"signal", machine.Command{Script: "kill -TERM $$"}, machine.Result{ExitCode: -1, Signal: "SIGTERM"}},
		{"stdin", machine.Command{Script: "cat", Stdin: []byte("a\x00\xff\n")}, machine.Result{Stdout: []byte("a\x00\xff\n")}},
		{"unread stdin", machine.Command{Script: "true", Stdin: make([]byte, 2<<20)}, machine.Result{}},
		{"no stdin", machine.Command{Script: "cat"}, machine.Result{}},
		{"environment", machine.Command{Script: "echo $A", Env: map[string]string{"A": "b=c d"}}, machine.Result{Stdout: []byte("b=c d\n")}},
		{"working directory", machine.Command{Script: "pwd", Dir: "/workspace/."}, machine.Result{Stdout: []byte("/workspace\n")}},
		{"script is not UTF-8", machine.Command{Script: "printf '\xff\xfe'"}, machine.Result{Stdout: []byte("\xff\xfe")}},
		{"cap", machine.Command{Script: "printf 123456789; printf abcdef >&2", MaxOutput: 4}, machine.Result{Stdout: []byte("1234"), Stderr: []byte("abcd"), Dropped: 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, s, c.cmd)
			if got.Wall <= 0 {
				t.Error("no wall time")
			}
			got.Wall, got.CPU, got.Shell, got.News = 0, 0, "", nil
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExecRefusals(t *testing.T) {
	s := open(t)
	for _, c := range []struct {
		name string
		cmd  machine.Command
		want error
		text string
	}{
		{"directory outside", machine.Command{Script: "true", Dir: "/etc"}, machine.ErrOutside, ""},
		{"directory missing", machine.Command{Script: "true", Dir: "nosuch"}, machine.ErrNotFound, ""},
		{"script too long", machine.Command{Script: strings.Repeat("#", 130<<10)}, nil, "write it to a file"},
		{"zero byte", machine.Command{Script: "echo \x00"}, nil, "zero byte"},
		{"variable name", machine.Command{Script: "true", Env: map[string]string{"A=B": "c"}}, nil, "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.Exec(t.Context(), c.cmd)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCommandsDoNotSeeTheHost(t *testing.T) {
	t.Setenv("FLYNN_TEST_SECRET", "hunter2")
	s := open(t)
	env := shell(t, s, "env; tr '\\0' '\\n' < /proc/self/environ")
	for _, line := range strings.Split(strings.TrimSpace(env), "\n") {
		name, _, _ := strings.Cut(line, "=")
		if !slices.Contains([]string{"PATH", "HOME", "LANG", "PWD", "SHLVL", "HOSTNAME", "IMAGE_SECRET"}, name) {
			t.Errorf("unexpected variable %q", line)
		}
	}
	if got := shell(t, s, "cat /proc/1/environ /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c hunter2 || true"); got != "0\n" {
		t.Errorf("host's variable found: %s", got)
	}
}

func TestConfinement(t *testing.T) {
	s := open(t)
	for _, c := range []struct{ name, script, want string }{
		{"user", "id -u", "1000\n"},
		{"no capabilities", "grep CapEff /proc/self/status", "CapEff:\t0000000000000000\n"},
		{"bounding set", "grep CapBnd /proc/self/status", "CapBnd:\t00000000000000e0\n"},
		{"no new privileges", "grep NoNewPrivs /proc/self/status", "NoNewPrivs:\t1\n"},
		{"only loopback", "ls /sys/class/net", "lo\n"},
		{"root is read-only", "touch /x 2>&1 || echo no", "touch: /x: Read-only file system\nno\n"},
		{"no device nodes", "mknod b b 1 1 2>/dev/null || echo no", "no\n"},
		{"no mounts", "mount -t tmpfs x /tmp 2>/dev/null || echo no", "no\n"},
		{"no user namespace", "unshare -U true 2>/dev/null || echo no", "no\n"},
		{"supervisor cannot be signalled", "kill -9 1 2>/dev/null || echo no", "no\n"},
		{"its memory is closed", "cat /proc/1/mem 2>/dev/null || echo no", "no\n"},
		{"its streams are closed", "echo x 2>/dev/null >/proc/1/fd/1 || echo no", "no\n"},
		{"its helper cannot be signalled", "for p in $(pidof flynn-sandboxd); do kill -9 $p 2>/dev/null && echo killed $p; done; echo no", "no\n"},
		{"the control socket is closed", "nc local:/.flynn-control/s </dev/null 2>/dev/null || ls /.flynn-control | wc -l", "0\n"},
		{"tag cannot be shed", "grep Groups /proc/self/status | tr -d '\\n' | sed 's/4[0-9]*/TAG/'; setsid sh -c 'grep Groups /proc/self/status' | sed 's/4[0-9]*/TAG/'", "Groups:\t1000 TAG Groups:\t1000 TAG \n"},
		{"open files", "ulimit -n", "1024\n"},
		{"no core files", "ulimit -c", "0\n"},
		{"set-user-id has no effect", "cp /bin/busybox . && chmod 6755 busybox && ./busybox id -u", "1000\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := shell(t, s, c.script); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The supervisor holds the limit of open files where the engine sets a looser one.
func TestOpenFilesWithoutTheEngine(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, func(c *sandbox.Config) { c.Driver = h.Driver.Weakened(docker.Weakness{LooseUlimits: true}) })
	if got := shell(t, get(t, m, "s", config.Spec), "ulimit -Sn; ulimit -Hn; ulimit -n 1025 2>/dev/null || echo no"); got != "1024\n1024\nno\n" {
		t.Errorf("got %q", got)
	}
}

func TestFloodIsCappedAtTheSource(t *testing.T) {
	s := open(t)
	const total, keep = 200 << 20, 64 << 10
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := run(t, s, machine.Command{Script: fmt.Sprintf("head -c %d /dev/zero", total), MaxOutput: keep})
	runtime.ReadMemStats(&after)
	if len(r.Stdout) != keep || r.Dropped != total-keep {
		t.Errorf("kept %d, dropped %d", len(r.Stdout), r.Dropped)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("host allocated %d bytes for it", used)
	}
}

func TestFloodDoesNotHoldUpOthers(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	flood := make(chan struct{})
	arrived := make(chan struct{}, 1)
	go func() {
		defer close(flood)
		_, _ = s.Exec(ctx, machine.Command{Script: "cat /dev/zero", MaxOutput: 1 << 30, Progress: func(machine.Stream, []byte) {
			select {
			case arrived <- struct{}{}:
			default:
			}
			<-ctx.Done() // a reader that has stopped reading
		}})
	}()
	<-arrived
	for range 20 {
		if got := shell(t, s, "echo ok"); got != "ok\n" {
			t.Errorf("got %q", got)
		}
	}
	cancel()
	<-flood
}

func TestProgressComesEarly(t *testing.T) {
	s := open(t)
	pieces := make(chan string, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.Exec(t.Context(), machine.Command{
			Script:   "echo early; until [ -e go ]; do sleep 0.01; done; echo late",
			Progress: func(_ machine.Stream, p []byte) { pieces <- string(p) },
		})
	}()
	if got := <-pieces; got != "early\n" {
		t.Errorf("got %q", got)
	}
	shell(t, s, "touch go")
	if got := <-pieces; got != "late\n" {
		t.Errorf("got %q", got)
	}
	<-done
}

// With a runtime named there is no control socket, and the frames go over the attached streams.
func TestWithoutALane(t *testing.T) {
	s := open(t, func(c *sandbox.Config) { c.Spec.Runtime = "runc" })
	if got := shell(t, s, "ls -d /.flynn-control 2>/dev/null || echo none"); got != "none\n" {
		t.Errorf("control socket: %q", got)
	}
	r := run(t, s, machine.Command{Script: "cat; head -c 1000000 /dev/zero >&2", Stdin: []byte("hello"), MaxOutput: 700_000})
	if string(r.Stdout) != "hello" || len(r.Stderr) != 700_000 || r.Dropped != 300_000 {
		t.Errorf("stdout %q, %d bytes of stderr, %d dropped", r.Stdout, len(r.Stderr), r.Dropped)
	}
	r = run(t, s, machine.Command{Script: "setsid sleep 100 & sleep 100", Timeout: 100 * time.Millisecond})
	if r.Kill == nil || r.Kill.Survivors != 0 || !r.TimedOut {
		t.Errorf("got %+v, kill %+v", r, r.Kill)
	}
}
