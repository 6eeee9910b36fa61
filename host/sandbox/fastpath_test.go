package sandbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// A command that is over at once goes another way through the supervisor than one that lasts. The result must not
// tell which, nor a command on the border between both.
func TestBriefAndLastingCommands(t *testing.T) {
	t.Parallel()
	m, config := sandboxtest.Engine(t).Manager(t)
	s := get(t, m, "s", config.Spec)
	for _, c := range []struct {
		name, script string
		stdout       int // bytes
		stderr       string
		code         int
		signal       string
		limit        int // of the output
	}{
		{name: "nothing", script: "true"},
		{name: "status", script: "exit 3", code: 3},
		{name: "both streams", script: "echo out; echo err >&2", stdout: 4, stderr: "err\n"},
		{name: "killed", script: "kill -9 $$", code: -1, signal: "SIGKILL"},
		{name: "ignored signal", script: "kill -CHLD $$; kill -40 $$", code: -1, signal: "SIGRT40"},
		{name: "children", script: "true | cat | wc -c", stdout: 2},
		{name: "much output", script: "head -c 60000 /dev/zero", stdout: 60000},
		{name: "more than a pipe holds", script: "head -c 200000 /dev/zero", stdout: 200000},
		{name: "more than wanted", script: "printf 1234567", stdout: 5, limit: 5},
		{name: "on the border", script: "usleep 1500", stdout: 0},
		{name: "lasting", script: "echo a; usleep 20000; echo b", stdout: 4},
	} {
		for _, asked := range []struct {
			name string
			cmd  machine.Command
		}{
			{"plain", machine.Command{}},
			{"with changes", machine.Command{Changes: true, Progress: func(machine.Stream, []byte) {}}},
			{"in a folder", machine.Command{Dir: "."}},
		} {
			t.Run(c.name+" "+asked.name, func(t *testing.T) {
				cmd := asked.cmd
				cmd.Script, cmd.MaxOutput = c.script, c.limit
				for range 5 {
					r := run(t, s, cmd)
					signal := strings.HasPrefix(r.Signal, "SIG") == (c.signal != "")
					if len(r.Stdout) != c.stdout || string(r.Stderr) != c.stderr || r.ExitCode != c.code || !signal || r.Kill != nil {
						t.Errorf("%d bytes, %q, code %d, signal %q, kill %+v", len(r.Stdout), r.Stderr, r.ExitCode, r.Signal, r.Kill)
					}
					if r.Wall <= 0 || c.signal == "" && c.limit > 0 && r.Dropped == 0 || asked.cmd.Changes != (r.Changes != nil) {
						t.Errorf("wall %v, dropped %d, changes %v", r.Wall, r.Dropped, r.Changes)
					}
				}
			})
		}
	}
}

// Processes that lose their parent are buried, whatever kind of command made them, also while brief ones go on.
func TestOrphansAreBuried(t *testing.T) {
	m, config := sandboxtest.Engine(t).Manager(t)
	s := get(t, m, "s", config.Spec)
	for range 2 { // the reaper has been idle in between
		shell(t, s, "echo brief")
		p, err := s.Start(t.Context(), machine.Command{Script: "for i in 1 2 3 4 5; do (sleep 0.1 &); done; sleep 100"})
		if err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(30 * time.Second)
		for {
			// Read by the shell alone: a program that it starts for it would be one more process.
			left := shell(t, s, `n=0; for f in /proc/[0-9]*/status; do
				while read -r key value; do case $key$value in State:Z*|Name:sleep) n=$((n+1));; esac; done <$f
			done 2>/dev/null; echo $n`)
			if left == "1\n" { // the last sleep
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%q dead or asleep", left)
			}
		}
		if p, err = s.Kill(t.Context(), p.ID); err != nil || p.Result.Kill.Survivors != 0 {
			t.Fatalf("%+v (%v)", p.Result, err)
		}
	}
}

// Commands of one session begin side by side: none waits until the brief one before it has ended.
func TestBriefCommandsSideBySide(t *testing.T) {
	m, config := sandboxtest.Engine(t).Manager(t)
	s := get(t, m, "s", config.Spec)
	shell(t, s, "mkfifo a b")
	err := together(2, func(i int) error {
		script := []string{"echo x >a; read y <b", "read x <a; echo y >b"}[i]
		r, err := s.Exec(t.Context(), machine.Command{Script: script, Timeout: 30 * time.Second})
		if err == nil && (r.ExitCode != 0 || r.TimedOut) {
			t.Errorf("%q: %+v", script, r)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Commands do not inherit the settings of the supervisor's own threads.
func TestCommandsBeginAsUsual(t *testing.T) {
	m, config := sandboxtest.Engine(t).Manager(t)
	s := get(t, m, "s", config.Spec)
	const look = "grep -E 'SigBlk|SigIgn|SigCgt' /proc/self/status; cat /proc/self/timerslack_ns"
	const want = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n50000\n"
	for _, cmd := range []machine.Command{{Script: look}, {Script: look, Dir: "."}} {
		if r := run(t, s, cmd); string(r.Stdout) != want {
			t.Errorf("got %q, want %q", r.Stdout, want)
		}
	}
	if got := shell(t, s, "cat /proc/1/comm"); got != ".flynn-sandboxd\n" {
		t.Errorf("the supervisor is called %q", got)
	}
}
