package sandbox_test

import (
	"context"
	"testing"

	"github.com/flynnhost/flynn/host/machine"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// open returns a session of a Manager of its own.
func open(t testing.TB, adjust ...func(*sandbox.Config)) *sandbox.Session {
	t.Helper()
	m, config := sandboxtest.Engine(t).Manager(t, adjust...)
	return get(t, m, "chat:1", config.Spec)
}

func get(t testing.TB, m *sandbox.Manager, session string, spec sandbox.Spec) *sandbox.Session {
	t.Helper()
	s, err := m.Get(t.Context(), session, "default", spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a script and insists on a verdict.
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

func TestSmoke(t *testing.T) {
	s := open(t)
	t.Log(shell(t, s, "id; env; ls -la / .; cat /proc/self/status | grep -E 'Cap|NoNew|Secc|Groups'; cat /proc/net/dev"))
}
