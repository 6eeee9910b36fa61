package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox"
)

func TestSandboxExplainsASession(t *testing.T) {
	s := newSandboxes(t, "enabled = true")
	if _, stderr := s.flynn(exitFailure, "explain", "--session", "nosuch"); !strings.Contains(stderr, "neither a workspace nor a container") {
		t.Errorf("unknown session: %s", stderr)
	}
	id := s.leave(s.host.Instance, "ours")
	dir := sandbox.Workspace(s.host.Root, "ours")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	out, _ := s.flynn(exitOK, "explain", "--json", "--session", "ours")
	var e sessionPlace
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatal(err)
	}
	if e.Workspace != dir || len(e.Containers) != 1 || e.Containers[0].ID != id || e.Containers[0].State != "created" {
		t.Errorf("got %s", out)
	}
	if len(e.Places) == 0 || e.Places[0].Engine == "" || e.Places[0].Network != "none" || e.Places[0].Reasons[0] != "[sandbox] enabled = true" {
		t.Errorf("places: %+v", e.Places)
	}
	if out, _ := s.flynn(exitOK, "explain", "--session", "ours"); !strings.Contains(out, "container: flynn-left-") || !strings.Contains(out, "agent main at channel doors") {
		t.Errorf("for people: %s", out)
	}
	if out, _ := s.flynn(exitOK, "list"); !strings.Contains(out, "STATE") || !strings.Contains(out, "created") {
		t.Errorf("list: %s", out)
	}
}
