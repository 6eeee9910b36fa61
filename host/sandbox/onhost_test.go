package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/bridge"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/machine/machinetest"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// "selected host programs offered to the sandboxed shell, working directory translated, path arguments recognised and resolved, every
// argument checked against a pattern, a refusal is exit code 1 with a security message"
func TestBridgeToTheHost(t *testing.T) {
	h := sandboxtest.Engine(t) // first, since what is missing skips a test only outside of its namespace
	if !machinetest.Isolate(t) {
		return
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "tool")
	const script = `#!/bin/sh
case "$1" in
where) pwd | sed "s|.*/work|/work|"; ls -A . ;;
show) shift; cat "$@" ;;
spoil) echo spoilt > "$2" && cat "$2" ;;
environment) env | sort ;;
say) shift; printf '<%s>' "$@"; echo ;;
input) cat ;;
exit) exit 7 ;;
wait) sleep 600 & echo "$!" > "$PIDFILE"; wait ;;
esac
`
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FLYNN_TEST_DAEMONS_OWN", "daemon-secret")
	args := func(words ...string) (all []bridge.Arg) {
		for _, w := range words {
			all = append(all, bridge.Arg{Pattern: w})
		}
		return all
	}
	pidFile := filepath.Join(dir, "pid")
	var noted calls
	m, config := h.Manager(t, func(c *sandbox.Config) {
		c.Spec.WorkspaceDir = "/my ws"
		c.Spec.Bridges = []spec.Bridge{
			{Name: "tool", OnHost: true, Program: program, Workspace: "ro", Stdin: true, Env: map[string]string{"PLAIN": "yes"}, Forms: []bridge.Form{
				{Args: args("where|environment|input|exit")},
				{Args: append(args("show"), bridge.Arg{Path: true, Rest: true})},
				{Args: append(args("spoil"), bridge.Arg{Path: true})},
				{Args: append(args("say"), bridge.Arg{Pattern: `[^/]*|/FLYNN.*`, Rest: true})},
			}},
			{Name: "secret", OnHost: true, Program: program, Secrets: map[string]string{"TOKEN": "token"}, Forms: []bridge.Form{{Args: args("environment")}}},
			{Name: "short", OnHost: true, Program: program, Timeout: time.Second, Env: map[string]string{"PIDFILE": pidFile}, Forms: []bridge.Form{{Args: args("wait")}}},
			{Name: "nosuch", OnHost: true, Program: "/nosuch", Forms: []bridge.Form{{}}},
		}
		c.Secret = func(string) string { return bridgeSecret }
		c.Egress = &noted
	})
	s := get(t, m, "s", config.Spec)
	run(t, s, machine.Command{Script: "mkdir -p sub/dir; echo one > sub/a; echo two > 'sub/b c'; ln -s a sub/in; ln -s /etc/passwd sub/out; ln -s ../.. sub/up; mkfifo sub/pipe; echo evil > sub/.toolrc"})
	for _, c := range []struct {
		name, script, stdout, stderr string
		code                         int
	}{
		{"paths", "cd sub; tool show a 'b c' in '/my ws/sub/a'", "one\ntwo\none\none\n", "", 0},
		{"nothing else of the workspace", "cd sub; tool where", "/work/sub\n", "", 0},
		{"a copy", "tool spoil sub/a; cat sub/a", "spoilt\none\n", "", 0},
		{"clean environment", "EVIL=x LD_PRELOAD=/x tool environment | grep -c -e EVIL -e PRELOAD -e daemon-secret", "0\n", "", 1},
		{"its own variables", "tool environment | grep PLAIN", "PLAIN=yes\n", "", 0},
		{"a secret", "secret environment | grep TOKEN", "TOKEN=" + strings.Repeat("*", len(bridgeSecret)) + "\n", "", 0},
		{"rude words", `tool say '$(id)' "a'b" '; id' '*' 'ж' '' '` + "`id`" + `' '\'`, `<$(id)><a'b><; id><*><ж><>` + "<`id`>" + `<\>` + "\n", "", 0},
		{"no folder of the call's", "tool say /FLYNN/x", "</FLYNN/x>\n", "", 0},
		{"input", "printf 'a\\0b' | tool input | od -An -c | tr -d ' '", "a\\0b\n", "", 0},
		{"exit code", "tool exit", "", "", 7},
		{"no such program", "nosuch", "", "not found", 127},
		{"time-out", "short wait", "", "ended after 1s", 124},

		{"not listed", "tool remove", "", `refused for security: argument 1 ("remove"): does not match`, 1},
		{"a flag", "tool say --exec=id", "", "is a flag that is not listed", 1},
		{"another line", "tool say \"$(printf 'a\\nb')\"", "", "has a line break", 1},
		{"a file by a sign", "tool say @x", "", `may name a file by "@"`, 1},
		{"outside", "tool show /etc/passwd", "", "is not a path in the workspace", 1},
		{"upwards", "tool show ../../etc/passwd", "", "is not a path in the workspace", 1},
		{"a link out", "tool show sub/out", "", "refused for security: path \"sub/out\" leads out of the workspace", 1},
		{"a link upwards", "tool show sub/up/etc/passwd", "", "leads out of the workspace", 1},
		{"elsewhere", "cd /tmp; tool where", "", "the working directory", 1},
		{"a folder", "tool show sub/dir", "", "is not a regular file", 1},
		{"a pipe", "tool show sub/pipe", "", "is not a regular file", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, s, machine.Command{Script: c.script, Timeout: 30 * time.Second})
			if string(r.Stdout) != c.stdout || !strings.Contains(string(r.Stderr), c.stderr) || r.ExitCode != c.code {
				t.Errorf("exit code %d, stdout %q, stderr %q, want %d, %q, %q", r.ExitCode, r.Stdout, r.Stderr, c.code, c.stdout, c.stderr)
			}
			if refused := strings.Contains(string(r.Stderr), "refused for security"); refused == noted.last().Allowed {
				t.Errorf("%s; what is noted: %+v", r.Stderr, noted.last())
			}
		})
	}
	t.Run("swapped links", func(t *testing.T) {
		stop := make(chan struct{})
		var swapping sync.WaitGroup
		swapping.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = s.Exec(t.Context(), machine.Command{Script: "for i in 1 2 3 4 5 6 7 8; do ln -sfn a sub/swapped; ln -sfn /etc/passwd sub/swapped; done"})
				}
			}
		})
		for range 20 {
			if r := run(t, s, machine.Command{Script: "tool show sub/swapped 2>/dev/null; true"}); strings.Contains(string(r.Stdout), "root:") {
				t.Fatalf("a file of the host was read: %s", r.Stdout)
			}
		}
		close(stop)
		swapping.Wait()
	})
	pid, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/status")
	if err == nil && !strings.Contains(string(status), "State:\tZ") { // the first process of this namespace reaps nobody
		t.Errorf("what a call has started outlived it: %s", status)
	}
	if left, _ := filepath.Glob(filepath.Join(config.WorkspaceRoot, ".run-*", "hostcall-*")); len(left) != 0 {
		t.Errorf("left %q", left)
	}
}

func TestBridgeToTheHostIsRefused(t *testing.T) {
	second := sandboxtest.Spec()
	for name, b := range map[string]spec.Bridge{
		"a sandbox as well": {In: &second},
		"writable":          {Workspace: "rw"},
		"secrets and files": {Workspace: "ro", Secrets: map[string]string{"A": "a"}},
		"paths":             {Forms: []bridge.Form{{Args: []bridge.Arg{{Path: true}}}}},
		"anything":          {Forms: []bridge.Form{{Args: []bridge.Arg{{}}}}},
		"anything behind":   {Forms: []bridge.Form{{Args: []bridge.Arg{{Pattern: "a"}, {Rest: true}}}}},
		"a relative path":   {Program: "bin/x"},
	} {
		wanted := sandboxtest.Spec()
		b.Name, b.OnHost = "b", true
		if b.Program == "" {
			b.Program = "/bin/true"
		}
		wanted.Bridges = []spec.Bridge{b}
		if err := wanted.Check(); err == nil {
			t.Errorf("accepted: %s", name)
		}
	}
}
