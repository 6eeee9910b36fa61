package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

func TestSandboxExplainsASession(t *testing.T) {
	s := newSandboxes(t, "enabled = true")
	if _, stderr := s.flynn(exitFailure, "explain", "--session", "nosuch"); !strings.Contains(stderr, "neither a workspace nor a container") {
		t.Errorf("unknown session: %s", stderr)
	}
	id := s.leave(s.host.Instance, "ours")
	dir := workspace.Path(s.host.Root, "ours")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	out, _ := s.flynn(exitOK, "explain", "--json", "--session", "ours")
	var e sessionSandboxes
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatal(err)
	}
	if e.Workspace != dir || len(e.Containers) != 1 || e.Containers[0].ID != id || e.Containers[0].State != "created" {
		t.Errorf("got %s", out)
	}
	if len(e.Places) == 0 || e.Places[0].Engine == "" || e.Places[0].Network != "none" || e.Places[0].Reasons[0] != "[sandbox] enabled = true" {
		t.Errorf("places: %+v", e.Places)
	}
	if out, _ := s.flynn(exitOK, "explain", "--session", "ours"); !strings.Contains(out, "container: flynn-left-") || !strings.Contains(out, "agent main (channel): ") {
		t.Errorf("for people: %s", out)
	}
	if out, _ := s.flynn(exitOK, "list"); !strings.Contains(out, "STATE") || !strings.Contains(out, "created") {
		t.Errorf("list: %s", out)
	}
}

// Programs of an agent that answers by them have containers of their own, in the runtime of all others.
func TestSandboxExplainPrograms(t *testing.T) {
	s := newSandboxes(t, `enabled = true
runtime = "runc"
[agent_configs.coder]
kind = "code"
[agent_configs.coder.code]
languages = ["python", "javascript"]
image = "flynn-test/python:1"
network = "allowlist"
allowlist = ["a.example:443"]`)
	var places []sandboxes.Placement
	out, _ := s.flynn(exitOK, "explain", "--json", "coder")
	if err := json.Unmarshal([]byte(out), &places); err != nil || len(places) != 4 {
		t.Fatalf("explained %s (%v)", out, err)
	}
	if p := places[0]; p.Language != "python" || p.Image != "flynn-test/python:1" || p.Where != "own container" || p.Network != "allowlist" || p.Runtime != "runc" ||
		!p.Sandboxed || p.Action != "run" {
		t.Errorf("python: %+v", p)
	}
	if p := places[3]; p.Language != "javascript" || p.Image != "node:22-slim" || p.Door != "local" {
		t.Errorf("javascript: %+v", p)
	}
}

func TestSandboxExplainARuntimeThatIsMissing(t *testing.T) {
	s := newSandboxes(t, `enabled = true
runtime = "runsc"
[agent_configs.coder]
kind = "code"`)
	if engine, err := s.host.Driver.Capabilities(t.Context()); err != nil || slices.Contains(engine.Runtimes, "runsc") {
		t.Skipf("the engine has it (%v)", err)
	}
	for _, agent := range []string{"main", "coder"} {
		var places []sandboxes.Placement
		out, _ := s.flynn(exitOK, "explain", "--json", agent)
		if err := json.Unmarshal([]byte(out), &places); err != nil || len(places) != 2 {
			t.Fatalf("explained %s (%v)", out, err)
		}
		if p := places[0]; p.Action != "deny" || p.Sandboxed || !strings.Contains(strings.Join(p.Reasons, "; "), `no runtime "runsc"`) {
			t.Errorf("%s: %+v", agent, p)
		}
	}
}
