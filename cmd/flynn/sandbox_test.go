package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/flynnhost/flynn/host"
	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// sandboxSite is a configuration with sandboxes on the tests' engine.
type sandboxSite struct {
	t    testing.TB
	path string
	host *sandboxes.Admin
}

// newSandboxes keeps them in a folder of their own, or in that named.
func newSandboxes(t testing.TB, settings string, store ...string) sandboxSite {
	t.Helper()
	sandboxtest.Engine(t)
	dir := t.TempDir()
	store = append(store, filepath.Join(dir, "store"))
	s := sandboxSite{t: t, path: filepath.Join(dir, "flynn.toml")}
	narrow := `sandbox = "small"`
	if !strings.Contains(settings, "enabled = true") {
		narrow = "" // an agent that asks for a sandbox where there is none is an error
	}
	text := fmt.Sprintf(`
[sandbox]
image = %q
memory_limit = "128m"
pids_limit = 64
%s
[sandboxes.small]
memory_limit = "64m"
[agent_configs.main]
[agent_configs.free]
sandbox = false
[agent_configs.narrow]
%s
[routing]
default_agent = "main"
[store]
dir = %q
`, sandboxtest.Image, settings, narrow, store[0])
	if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(s.path, os.Getenv, host.Checks()...)
	if err != nil {
		t.Fatal(err)
	}
	if s.host, err = sandboxes.Open(t.Context(), c, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.host.Driver.Close() })
	return s
}

// flynn runs "flynn sandbox ARGS..." and insists on the exit code.
func (s sandboxSite) flynn(code int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	return s.feed(nil, code, args...)
}

// feed is flynn with something on standard input.
func (s sandboxSite) feed(stdin io.Reader, code int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	var out, err bytes.Buffer
	got := run(context.Background(), append([]string{"flynn", "--config", s.path, "sandbox"}, args...), os.Getenv, stdin, &out, &err)
	if got != code {
		s.t.Fatalf("flynn sandbox %q: exit code %d, want %d\n%s%s", args, got, code, out.String(), err.String())
	}
	return out.String(), err.String()
}

// listed is the answer of a command that lists containers.
func (s sandboxSite) listed(args ...string) []gateway.Container {
	s.t.Helper()
	var list []gateway.Container
	out, _ := s.flynn(exitOK, append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		s.t.Fatal(err)
	}
	return list
}

func TestSandboxExec(t *testing.T) {
	s := newSandboxes(t, "enabled = true")
	for _, c := range []struct {
		name           string
		code           int
		args           []string
		stdout, stderr string
	}{
		{"output and result", exitOK, []string{"echo out; echo err >&2"}, "out\n", "err\nflynn: exit code 0"},
		{"words are joined", exitOK, []string{"--", "echo", "a", "b"}, "a b\n", "exit code 0"},
		{"exit code", 7, []string{"exit 7"}, "", "exit code 7"},
		{"signal", exitSignal + 9, []string{"kill -9 $$"}, "", "ended by SIGKILL"},
		{"no such program", 127, []string{"nosuch"}, "", "exit code 127"},
		{"time-out", exitTimedOut, []string{"--timeout", "200ms", "sleep 60"}, "", "timed out, killed by rung"},
		{"named sandbox", exitOK, []string{"--sandbox", "small", "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; true"}, "67108864\n", ""},
		{"unknown sandbox", exitNotRun, []string{"--sandbox", "nosuch", "true"}, "", "no [sandboxes.nosuch]"},
		{"unknown session", exitNotRun, []string{"--session", "nosuch", "true"}, "", `session "nosuch" has no workspace`},
		{"no command", exitUsage, nil, "", "needs at least one argument"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s
			s.t = t
			stdout, stderr := s.flynn(c.code, append([]string{"exec"}, c.args...)...)
			if stdout != c.stdout || !strings.Contains(stderr, c.stderr) {
				t.Errorf("stdout %q, want %q; stderr %q, want %q", stdout, c.stdout, stderr, c.stderr)
			}
		})
	}
	if left := s.listed("list"); len(left) != 0 {
		t.Errorf("containers left: %+v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(s.host.Root, "exec-*")); len(left) != 0 {
		t.Errorf("workspaces left: %q", left)
	}
}

func TestSandboxExecInASessionsWorkspace(t *testing.T) {
	s := newSandboxes(t, "enabled = true")
	const session = "irc:1"
	dir := workspace.Path(s.host.Root, session)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.flynn(exitOK, "exec", "--session", session, "echo kept >file")
	out, _ := s.flynn(exitOK, "exec", "--json", "--session", session, "cat file")
	var result struct {
		Stdout   string `json:"stdout"`
		ExitCode int    `json:"exit_code"`
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || result.Stdout != "kept\n" || result.ExitCode != 0 {
		t.Errorf("got %s (%v)", out, err)
	}
}

// leave makes a container that nobody looks after.
func (s sandboxSite) leave(instance, name string) string {
	s.t.Helper()
	id, err := s.host.Driver.Create(s.t.Context(), driver.Container{
		Key: name, Name: "flynn-left-" + instance + "-" + name, Image: sandboxtest.Image, Entrypoint: []string{"/bin/true"}, Network: "none",
		Labels: map[string]string{driver.LabelInstance: instance, driver.LabelSession: name},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = s.host.Driver.Remove(context.Background(), id) })
	return id
}

func TestSandboxPruneTouchesOnlyItsOwn(t *testing.T) {
	s := newSandboxes(t, "enabled = true")
	other := "other-" + s.host.Instance
	ours, theirs := s.leave(s.host.Instance, "ours"), s.leave(other, "theirs")
	if list := s.listed("list"); len(list) != 1 || list[0].ID != ours || list[0].Session != "ours" {
		t.Fatalf("listed %+v", list)
	}

	lock, err := os.Create(filepath.Join(filepath.Dir(s.host.Root), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, stderr := s.flynn(exitFailure, "prune"); !strings.Contains(stderr, "a host is running") {
		t.Errorf("beside a host: %s", stderr)
	}
	lock.Close()

	if removed := s.listed("prune"); len(removed) != 1 || removed[0].ID != ours {
		t.Errorf("removed %+v", removed)
	}
	if list := s.listed("list"); len(list) != 0 {
		t.Errorf("left after prune: %+v", list)
	}
	left, err := s.host.Driver.List(t.Context(), other)
	if err != nil || !slices.ContainsFunc(left, func(o driver.Owned) bool { return o.ID == theirs }) {
		t.Errorf("the other instance has %+v (%v)", left, err)
	}
	if out, _ := s.flynn(exitOK, "prune"); out != "" {
		t.Errorf("nothing to prune, printed %q", out)
	}
}

func TestSandboxExplain(t *testing.T) {
	for _, c := range []struct {
		name, settings, agent, frontend, action, where, why string
	}{
		{"in force", "enabled = true", "main", "channel", "run", "sandbox", "enabled = true"},
		{"named", "enabled = true", "narrow", "channel", "run", "small", `sandbox = "small"`},
		{"agent without", "enabled = true", "free", "channel", "ask", "host", "sandbox = false"},
		{"local frontend", "enabled = true", "main", "local", "ask", "host", "local_frontends = false"},
		{"local frontend inside", "enabled = true\nlocal_frontends = true", "main", "local", "run", "sandbox", "enabled = true"},
		{"off", "", "main", "channel", "ask", "host", "[sandbox] enabled = false"},
		{"no engine", "enabled = true\nengine = \"unix:///nowhere\"", "main", "channel", "deny", "", "no engine answers at unix:///nowhere"},
		{"no engine, host allowed", "enabled = true\nengine = \"unix:///nowhere\"\non_unavailable = \"host\"", "main", "channel", "ask", "host", "on_unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSandboxes(t, c.settings)
			out, _ := s.flynn(exitOK, "explain", "--json", c.agent)
			var places []sandboxes.Placement
			if err := json.Unmarshal([]byte(out), &places); err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(places, func(p sandboxes.Placement) bool { return p.Door == c.frontend })
			if i < 0 || len(places) != 2 {
				t.Fatalf("places %+v", places)
			}
			if p := places[i]; p.Action != c.action || p.Where != c.where || !strings.Contains(strings.Join(p.Reasons, "; "), c.why) {
				t.Errorf("got %+v", p)
			}
		})
	}
}

func TestSandboxVerify(t *testing.T) {
	s := newSandboxes(t, "enabled = true")
	out, _ := s.flynn(exitOK, "selftest", "--run", "^(rights/user$|leak/)", "-v")
	for _, want := range []string{"pass  rights/user", "pass  leak/next-command", "3 pass, 0 weak, 0 fail"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	out, _ = s.flynn(exitOK, "selftest", "--run", "^rights/user$", "--controls", "--json")
	var report struct{ Passed, Controlled int }
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Passed != 1 || report.Controlled != 1 {
		t.Errorf("report %s (%v)", out, err)
	}
	if _, stderr := s.flynn(exitFailure, "selftest", "--run", "^no such$"); !strings.Contains(stderr, "no probe") {
		t.Errorf("no probe chosen: %s", stderr)
	}
	s.flynn(exitUsage, "selftest", "--run", "(")
}

// A command that runs no program in a sandbox needs no secret.
func TestSandboxesWithoutSecrets(t *testing.T) {
	const secret = "FLYNN_TEST_SECRET"
	t.Setenv(secret, "xxxxxxxxxxxxxxxxxxxxxxxx")
	s := newSandboxes(t, "enabled = true\nnetwork = \"allowlist\"\nallowlist = [\"a.example:443\"]\ncredentials = [{ host = \"a.example\", value_env = \""+secret+"\" }]")
	os.Unsetenv(secret)
	for _, args := range [][]string{{"prune"}, {"list"}, {"explain"}} {
		if _, stderr := s.flynn(exitOK, args...); stderr != "" && !strings.HasPrefix(stderr, "no containers: ") {
			t.Errorf("%s: %s", args[0], stderr)
		}
	}
}

func TestSandboxPruneVolumes(t *testing.T) {
	s := newSandboxes(t, "enabled = true\nvolumes = [{ name = \"cache\", target = \"/cache\" }]")
	if out, stderr := s.flynn(exitOK, "exec", "touch /cache/f"); out != "" {
		t.Errorf("printed %q, %s", out, stderr)
	}
	if left, err := s.host.Driver.(driver.Volumes).ListVolumes(t.Context(), s.host.Instance); err != nil || len(left) != 0 {
		t.Errorf("a passing session leaves %+v, %v", left, err)
	}
	if err := os.MkdirAll(workspace.Path(s.host.Root, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, stderr := s.flynn(exitOK, "exec", "--session", "kept", "echo kept > /cache/f; id -u; stat -c %u /cache"); len(strings.Fields(out)) != 2 ||
		strings.Fields(out)[0] != strings.Fields(out)[1] {
		t.Errorf("printed %q, %s", out, stderr)
	}
	if removed := s.listed("prune"); len(removed) != 0 {
		t.Errorf("without --volumes removed %+v", removed)
	}
	var removed []pruned
	out, _ := s.flynn(exitOK, "prune", "--volumes", "--json")
	if err := json.Unmarshal([]byte(out), &removed); err != nil || len(removed) != 1 || removed[0].Kind != "volume" || removed[0].Session != "kept" ||
		!strings.HasSuffix(removed[0].Name, "-cache") {
		t.Errorf("removed %s (%v)", out, err)
	}
	if left, err := s.host.Driver.(driver.Volumes).ListVolumes(t.Context(), s.host.Instance); err != nil || len(left) != 0 {
		t.Errorf("left %+v, %v", left, err)
	}
}

// A container from a pool has no label that says whose it is; what is done to its session finds it all the same.
func TestSandboxOfAPool(t *testing.T) {
	s := newSandboxes(t, "enabled = true")
	s.flynn(exitOK, "exec", "true")
	runs, _ := filepath.Glob(filepath.Join(s.host.Root, ".run-*"))
	if len(runs) != 1 {
		t.Fatalf("folders %q", runs)
	}
	key := strings.Repeat("0a", 16)
	if err := os.WriteFile(filepath.Join(runs[0], "owner-"+key), []byte(`{"session":"irc:1","sandbox":"small"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	id, err := s.host.Driver.Create(t.Context(), driver.Container{
		Key: key, Name: "flynn-claimed-" + s.host.Instance, Image: sandboxtest.Image, Entrypoint: []string{"/bin/true"}, Network: "none",
		Labels: map[string]string{driver.LabelInstance: s.host.Instance, driver.LabelKey: key},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.host.Driver.Remove(context.Background(), id) })
	if list := s.listed("list"); len(list) != 1 || list[0].Session != "irc:1" || list[0].Sandbox != "small" {
		t.Errorf("listed %+v", list)
	}
	if out, _ := s.flynn(exitOK, "explain", "--session", "irc:1"); !strings.Contains(out, "container: flynn-claimed-") || !strings.Contains(out, "agent narrow") {
		t.Errorf("explained %s", out)
	}
	if err := s.host.Forget(t.Context(), "irc:1"); err != nil {
		t.Fatal(err)
	}
	if list := s.listed("list"); len(list) != 0 {
		t.Errorf("left when its session was forgotten: %+v", list)
	}
}
