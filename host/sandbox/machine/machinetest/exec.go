package machinetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

func testExec(t *testing.T, m machine.Machine) {
	if err := m.WriteFile(t.Context(), "sub/noexec", []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	workspace := strings.TrimSpace(string(execute(t, m, machine.Command{Script: "pwd"}).Stdout))
	for _, c := range []struct {
		name           string
		cmd            machine.Command
		code           int
		signal         string
		stdout, stderr string // exact; "*" is anything
	}{
		{name: "stdout", cmd: machine.Command{Script: "echo hi"}, stdout: "hi\n"},
		{name: "stderr", cmd: machine.Command{Script: "echo oops >&2"}, stderr: "oops\n"},
		{name: "exit 1", cmd: machine.Command{Script: "exit 1"}, code: 1},
		{name: "exit 255", cmd: machine.Command{Script: "exit 255"}, code: 255},
		{name: "not executable", cmd: machine.Command{Script: "./sub/noexec"}, code: 126, stderr: "*"},
		{name: "no such command", cmd: machine.Command{Script: "no-such-command-here"}, code: 127, stderr: "*"},
		{name: "syntax error", cmd: machine.Command{Script: "if"}, code: 2, stderr: "*"},
		{name: "signal", cmd: machine.Command{Script: "kill -KILL $$"}, code: -1, signal: "SIGKILL"},
		{name: "signal that dumps core", cmd: machine.Command{Script: "ulimit -c 0; kill -ABRT $$"}, code: -1, signal: "SIGABRT"},
		{name: "signal of a child", cmd: machine.Command{Script: "sh -c 'kill -TERM $$'; echo $?"}, stdout: "143\n", stderr: "*"},
		{name: "stdin", cmd: machine.Command{Script: "cat", Stdin: []byte("a\x00b\xff")}, stdout: "a\x00b\xff"},
		{name: "no stdin is empty", cmd: machine.Command{Script: "cat"}},
		{name: "stdin left unread", cmd: machine.Command{Script: "exit 3", Stdin: bytes.Repeat([]byte("x"), 1<<20)}, code: 3},
		{name: "big stdin", cmd: machine.Command{Script: "wc -c | tr -d ' '", Stdin: bytes.Repeat([]byte("x"), 1<<20)}, stdout: "1048576\n"},
		{name: "binary output", cmd: machine.Command{Script: `printf '\000\377\n'`}, stdout: "\x00\xff\n"},
		{name: "environment", cmd: machine.Command{Script: `printf %s "$GREETING"`, Env: map[string]string{"GREETING": "a b\n\"c\"=$d"}}, stdout: "a b\n\"c\"=$d"},
		{name: "environment without PATH set", cmd: machine.Command{Script: `test -n "$PATH" && test -n "$HOME" && ls / >/dev/null`}},
		{name: "dir", cmd: machine.Command{Script: "ls", Dir: "sub"}, stdout: "noexec\n"},
		{name: "dir with dots", cmd: machine.Command{Script: "ls", Dir: "./sub/../sub/."}, stdout: "noexec\n"},
		{name: "absolute dir", cmd: machine.Command{Script: "ls", Dir: workspace + "/sub"}, stdout: "noexec\n"},
		{name: "many lines", cmd: machine.Command{Script: "printf 'a\nb\n'; printf 'c\n' >&2"}, stdout: "a\nb\n", stderr: "c\n"},
		{name: "empty", cmd: machine.Command{Script: ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := execute(t, m, c.cmd)
			if r.ExitCode != c.code || r.Signal != c.signal {
				t.Errorf("exit code %d, signal %q; want %d, %q; stderr %q", r.ExitCode, r.Signal, c.code, c.signal, r.Stderr)
			}
			if c.stdout != "*" && string(r.Stdout) != c.stdout {
				t.Errorf("stdout %q, want %q", r.Stdout, c.stdout)
			}
			if c.stderr != "*" && string(r.Stderr) != c.stderr {
				t.Errorf("stderr %q, want %q", r.Stderr, c.stderr)
			}
			if r.TimedOut || r.Canceled || r.Dropped != 0 {
				t.Errorf("timed out %v, canceled %v, dropped %d; want none of it", r.TimedOut, r.Canceled, r.Dropped)
			}
			if r.Wall <= 0 {
				t.Errorf("wall time %v, want more than none", r.Wall)
			}
		})
	}
}

func testExecRefusals(t *testing.T, m machine.Machine) {
	execute(t, m, machine.Command{Script: "ln -s / out; echo x >file"})
	for _, c := range []struct {
		name string
		cmd  machine.Command
		want error // nil: any error
	}{
		{"dir outside", machine.Command{Script: "true", Dir: ".."}, machine.ErrOutside},
		{"dir outside after going in", machine.Command{Script: "true", Dir: "a/../../b"}, machine.ErrOutside},
		{"absolute dir outside", machine.Command{Script: "true", Dir: "/usr"}, machine.ErrOutside},
		{"dir through a link", machine.Command{Script: "true", Dir: "out/usr"}, machine.ErrOutside},
		{"dir missing", machine.Command{Script: "true", Dir: "missing"}, machine.ErrNotFound},
		{"dir is a file", machine.Command{Script: "true", Dir: "file"}, nil},
		{"zero byte in the command", machine.Command{Script: "echo a\x00b"}, nil},
		{"equals sign in a variable's name", machine.Command{Script: "true", Env: map[string]string{"A=B": "c"}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := m.Exec(t.Context(), c.cmd)
			if err == nil || (c.want != nil && !errors.Is(err, c.want)) {
				t.Errorf("got %+v, error %v; want error %v", r, err, c.want)
			}
		})
	}
}

func testCaps(t *testing.T, m machine.Machine) {
	const flood = "head -c 300000 /dev/zero"
	for _, c := range []struct {
		name           string
		cmd            machine.Command
		stdout, stderr int
		dropped        int64
	}{
		{"default", machine.Command{Script: flood}, machine.DefaultMaxOutput, 0, 300000 - machine.DefaultMaxOutput},
		{"own cap", machine.Command{Script: flood, MaxOutput: 1000}, 1000, 0, 299000},
		{"each stream has its own", machine.Command{Script: flood + "; " + flood + " >&2", MaxOutput: 1000}, 1000, 1000, 598000},
		{"exactly the cap", machine.Command{Script: flood, MaxOutput: 300000}, 300000, 0, 0},
		{"one byte over", machine.Command{Script: flood, MaxOutput: 299999}, 299999, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := execute(t, m, c.cmd)
			if len(r.Stdout) != c.stdout || len(r.Stderr) != c.stderr || r.Dropped != c.dropped {
				t.Errorf("stdout %d, stderr %d, dropped %d bytes; want %d, %d, %d", len(r.Stdout), len(r.Stderr), r.Dropped, c.stdout, c.stderr, c.dropped)
			}
		})
	}
}

func testProgress(t *testing.T, m machine.Machine) {
	var mu sync.Mutex
	seen := map[machine.Stream]string{}
	r := execute(t, m, machine.Command{
		Script: "for i in 1 2 3; do echo out $i; echo err $i >&2; done",
		Progress: func(s machine.Stream, p []byte) {
			mu.Lock()
			defer mu.Unlock()
			seen[s] += string(p)
		},
	})
	mu.Lock()
	defer mu.Unlock()
	if seen[machine.Stdout] != string(r.Stdout) || seen[machine.Stderr] != string(r.Stderr) {
		t.Errorf("progress %q, want %q and %q", seen, r.Stdout, r.Stderr)
	}
}

// testEnding checks that a command ends together with everything that it started, however it ends.
func testEnding(t *testing.T, m machine.Machine) {
	const (
		group     = "sleep 1000 & echo $! >>pids; echo $$ >>pids; "
		stubborn  = "trap '' TERM HUP; sh -c 'trap \"\" TERM HUP; echo $$ >>pids; sleep 1000; sleep 1000' & "
		otherRoom = "setsid sh -c 'echo $$ >>pids; exec sleep 1000' </dev/null >/dev/null 2>&1 & "
		all       = "until [ $(wc -l <pids) = 3 ]; do sleep 0.01; done; "
		ready     = "echo ready; "
		wait      = "while :; do sleep 1000; done"
	)
	for _, c := range []struct {
		name   string
		script string
		pids   int
	}{
		{"group", group + ready + wait, 2},
		{"ignores TERM", stubborn + group + all + ready + wait, 3},
		{"left the session", otherRoom + group + all + ready + wait, 3},
	} {
		t.Run(c.name+", canceled", func(t *testing.T) {
			r := execUntilReady(t, m, c.script)
			if !r.Canceled || r.TimedOut {
				t.Errorf("canceled %v, timed out %v; want canceled", r.Canceled, r.TimedOut)
			}
			checkKilled(t, m, r)
			checkGone(t, m, c.pids)
		})
		t.Run(c.name+", timeout", func(t *testing.T) {
			for timeout := 2500 * time.Millisecond; ; timeout *= 3 {
				began := time.Now()
				r := execute(t, m, machine.Command{Script: c.script, Timeout: timeout})
				if !r.TimedOut || r.Canceled {
					t.Errorf("timed out %v, canceled %v; want timed out", r.TimedOut, r.Canceled)
				}
				if took := time.Since(began); took > timeout+patience/2 {
					t.Errorf("a timeout of %v took %v", timeout, took)
				}
				checkKilled(t, m, r)
				if bytes.Contains(r.Stdout, []byte("ready")) || timeout > patience/3 {
					break
				}
				execute(t, m, machine.Command{Script: "rm -f pids"}) // on a busy machine the processes may not all have started by then
			}
			checkGone(t, m, c.pids)
		})
	}
	t.Run("children of a command that exits", func(t *testing.T) {
		r := execute(t, m, machine.Command{Script: "sleep 1000 & echo $! >>pids; exit 7"})
		if r.ExitCode != 7 || r.TimedOut || r.Canceled {
			t.Errorf("got %+v, want exit code 7 and nothing else", r)
		}
		checkGone(t, m, 1)
	})
	t.Run("children that hold the output", func(t *testing.T) {
		r := execute(t, m, machine.Command{Script: "(echo $(exec sh -c 'echo $PPID') >>pids; exec sleep 1000) & echo done"})
		if string(r.Stdout) != "done\n" {
			t.Errorf("stdout %q, want %q", r.Stdout, "done\n")
		}
		execute(t, m, machine.Command{Script: "rm -f pids"})
	})
	t.Run("context over before the start", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r, err := m.Exec(ctx, machine.Command{Script: "echo ran >ran"})
		if err == nil && !r.Canceled {
			t.Errorf("got %+v, want an error or a canceled result", r)
		}
		if _, _, err := m.ReadFile(t.Context(), "ran", 0, 10); !errors.Is(err, machine.ErrNotFound) {
			t.Errorf("read what the command must not have written: %v", err)
		}
	})
}

// execUntilReady runs a command, cancels it once it says ready, and returns its result.
func execUntilReady(t *testing.T, m machine.Machine, script string) machine.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var mu sync.Mutex
	var seen []byte
	r, err := m.Exec(ctx, machine.Command{Script: script, Timeout: patience, Progress: func(_ machine.Stream, p []byte) {
		mu.Lock()
		defer mu.Unlock()
		if seen = append(seen, p...); bytes.Contains(seen, []byte("ready")) {
			cancel()
		}
	}})
	if err != nil {
		t.Fatalf("exec: %v", err)
	}
	return r
}

func checkKilled(t *testing.T, m machine.Machine, r machine.Result) {
	t.Helper()
	if r.Kill == nil || r.Kill.Survivors != 0 || r.Kill.Rung == "" {
		t.Fatalf("kill record %+v, want one with a rung and no survivors", r.Kill)
	}
	if r.ExitCode != -1 && r.Signal != "" {
		t.Errorf("exit code %d with signal %s, want -1", r.ExitCode, r.Signal)
	}
}

// checkGone checks that the processes in the file pids, n of them, are gone, and removes the file.
func checkGone(t *testing.T, m machine.Machine, n int) {
	t.Helper()
	script := `n=0; for p in $(cat pids); do n=$((n+1)); s=$(cut -d' ' -f3 /proc/$p/stat 2>/dev/null); case "$s" in ""|Z|X) ;; *) echo "$p is $s";; esac; done; echo $n; rm pids`
	r := execute(t, m, machine.Command{Script: script})
	if got, want := string(r.Stdout), fmt.Sprintf("%d\n", n); got != want {
		t.Errorf("processes alive, and count:\n%swant %sstderr %s", got, want, r.Stderr)
	}
}

func testParallel(t *testing.T, m machine.Machine) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			r, err := m.Exec(t.Context(), machine.Command{Script: fmt.Sprintf("echo %d; cat", i), Stdin: []byte("in")})
			if want := fmt.Sprintf("%d\nin", i); err != nil || string(r.Stdout) != want {
				t.Errorf("stdout %q, error %v; want %q", r.Stdout, err, want)
			}
		})
	}
	all.Wait()
}
