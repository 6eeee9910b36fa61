package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// begin starts flynn sandbox selftest and returns once it has said how its first attack went.
func (s sandboxSite) begin(args ...string) (cmd *exec.Cmd, rest *bufio.Reader, stderr *bytes.Buffer) {
	s.t.Helper()
	cmd, stderr = exec.Command("flynn", append([]string{"--config", s.path, "sandbox", "selftest"}, args...)...), new(bytes.Buffer)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	rest = bufio.NewReader(out)
	if line, err := rest.ReadString('\n'); err != nil || !strings.HasPrefix(line, "pass") {
		s.t.Fatalf("printed %q (%v): %s", line, err, stderr)
	}
	return cmd, rest, stderr
}

func TestSandboxVerifyIsInterrupted(t *testing.T) {
	s := newSandboxes(t, "enabled = true")
	cmd, rest, stderr := s.begin("-v")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	if _, err := printed.ReadFrom(rest); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitFailure || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("ended with %v: %s", err, stderr)
	}
	if strings.Contains(printed.String(), "fail") {
		t.Errorf("what was interrupted counts as a breach: %s", printed.String())
	}
	if left, _ := filepath.Glob(filepath.Join(s.host.Root, ".verify-*")); len(left) != 0 {
		t.Errorf("left %q", left)
	}
}

func TestSandboxVerifyIsKilled(t *testing.T) {
	s := newSandboxes(t, "enabled = true\nvolumes = [{ name = \"cache\", target = \"/cache\" }]")
	cmd, _, _ := s.begin("-v", "--controls", "--run", "^rights/")
	marks, _ := filepath.Glob(filepath.Join(s.host.Root, ".verify-*", "mark"))
	if len(marks) != 1 {
		t.Fatalf("marks %q", marks)
	}
	text, err := os.ReadFile(marks[0])
	if err != nil {
		t.Fatal(err)
	}
	run, outside, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	s.flynn(exitOK, "prune")
	if _, err := os.Stat(marks[0]); err != nil {
		t.Fatalf("a run that lives was taken for a dead one: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	id := s.leave(run, "lasting")
	s.flynn(exitOK, "prune")
	left, err := s.host.Driver.List(t.Context(), run)
	if err != nil || containing(left, id) {
		t.Errorf("containers left: %+v (%v)", left, err)
	}
	if volumes, err := s.host.Driver.(driver.Volumes).ListVolumes(t.Context(), run); err != nil || len(volumes) != 0 {
		t.Errorf("volumes left: %+v (%v)", volumes, err)
	}
	for _, path := range []string{filepath.Dir(marks[0]), outside} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

func containing(owned []driver.Owned, id string) bool {
	for _, o := range owned {
		if o.ID == id {
			return true
		}
	}
	return false
}

// An image that no command can run in withstands every attack, which proves nothing.
func TestSandboxVerifyOfAnImageWithoutAShell(t *testing.T) {
	dockerfile := filepath.Join(t.TempDir(), "Dockerfile")
	if err := os.WriteFile(dockerfile, []byte("FROM "+sandboxtest.Image+"\nRUN rm /bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSandboxes(t, fmt.Sprintf("enabled = true\n[sandboxes.bare]\ndockerfile = %q\nbuild_network = \"none\"", dockerfile))
	s.forgetImages()
	out, stderr := s.flynn(exitFailure, "selftest", "--sandbox", "bare", "--run", "^rights/user$")
	if out != "" || !strings.Contains(stderr, "prepare the self-test") || !strings.Contains(stderr, "no /bin/sh") {
		t.Errorf("printed %q; %s", out, stderr)
	}
}
