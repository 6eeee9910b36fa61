package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

func TestSandboxExecPassesEverythingOn(t *testing.T) {
	s := newSandboxes(t, "enabled = true")
	const lines = 100_000 // some 600 KiB, more than an agent is shown
	out, stderr := s.flynn(exitOK, "exec", "seq 100000; seq 100000 >&2")
	if n, last := strings.Count(out, "\n"), strings.HasSuffix(out, "\n100000\n"); n != lines || !last {
		t.Errorf("%d lines of stdout, to the last: %v", n, last)
	}
	if n := strings.Count(stderr, "\n"); n != lines+1 || !strings.Contains(stderr, "\nflynn: exit code 0") {
		t.Errorf("%d lines of stderr", n)
	}
	input := bytes.Repeat([]byte("\x00\xff\r\nline"), 100_000)
	if out, _ := s.feed(bytes.NewReader(input), exitOK, "exec", "-i", "cat"); out != string(input) {
		t.Errorf("of %d bytes of input %d came back", len(input), len(out))
	}
	if out, _ := s.feed(bytes.NewReader(input), exitOK, "exec", "-i", "head -c 4"); out != "\x00\xff\r\n" {
		t.Errorf("read %q", out)
	}
	if out, _ := s.feed(strings.NewReader("not asked for"), exitOK, "exec", "cat"); out != "" {
		t.Errorf("without --stdin read %q", out)
	}
	broken := io.MultiReader(strings.NewReader("begin"), failing{})
	if _, stderr := s.feed(broken, exitNotRun, "exec", "-i", "cat"); !strings.Contains(stderr, "read standard input: no more") {
		t.Errorf("input that breaks off: %s", stderr)
	}
	var result struct {
		Stdout  string
		Dropped int
	}
	out, _ = s.flynn(exitOK, "exec", "--json", "head -c 300000 /dev/zero | tr '\\0' x")
	if err := json.Unmarshal([]byte(out), &result); err != nil || len(result.Stdout) != machine.DefaultMaxOutput ||
		result.Dropped != 300_000-machine.DefaultMaxOutput {
		t.Errorf("kept %d, dropped %d (%v)", len(result.Stdout), result.Dropped, err)
	}
	s.flynn(exitUsage, "exec", "--timeout", "-1s", "true")
	s.flynn(7, "exec", "--json", "exit 7")
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no more") }

// A program that is ended leaves nothing, unless it is killed; then the next one that looks after this instance finds what it has left.
func TestSandboxExecIsEnded(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(cmd *exec.Cmd, out io.Closer) error
		leaves int
	}{
		{"nobody reads", func(_ *exec.Cmd, out io.Closer) error { return out.Close() }, 0},
		{"terminal closed", func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Signal(syscall.SIGHUP) }, 0},
		{"killed", func(cmd *exec.Cmd, _ io.Closer) error { return cmd.Process.Kill() }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSandboxes(t, "enabled = true\nvolumes = [{ name = \"cache\", target = \"/cache\" }]")
			left := func() (names []string) {
				t.Helper()
				workspaces, _ := filepath.Glob(filepath.Join(s.host.Root, "exec-*"))
				volumes, err := s.host.Driver.(driver.Volumes).ListVolumes(t.Context(), s.host.Instance)
				if err != nil || len(volumes) != len(workspaces) {
					t.Fatalf("%d volumes beside %q (%v)", len(volumes), workspaces, err)
				}
				return workspaces
			}
			// Under nohup the program would ignore the signal, as it has to.
			cmd := exec.Command("env", "--default-signal=HUP", "flynn", "--config", s.path, "sandbox", "exec", "echo x >file; while echo ready; do sleep 0.05; done")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
				t.Fatalf("printed %q (%v)", line, err)
			}
			if len(left()) != 1 {
				t.Fatal("there is no workspace while it runs")
			}
			if err := c.end(cmd, out); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil || c.leaves == 0 && cmd.ProcessState.ExitCode() < exitNotRun {
				t.Errorf("ended with %v: %s", err, stderr.String())
			}
			if names := left(); len(names) != c.leaves {
				t.Errorf("left %q; %s", names, stderr.String())
			}
			kept := workspace.Path(s.host.Root, "exec-kept") // somebody's session may be called so
			if err := os.MkdirAll(kept, 0o700); err != nil {
				t.Fatal(err)
			}
			s.flynn(exitOK, "prune")
			if owned := s.listed("list"); len(owned) != 0 {
				t.Errorf("containers left: %+v", owned)
			}
			if err := os.Remove(kept); err != nil {
				t.Errorf("a session's own workspace went: %v", err)
			}
			if names := left(); len(names) != 0 {
				t.Errorf("after prune: %q", names)
			}
		})
	}
}

func TestSandboxExecSaysWhatIsRefused(t *testing.T) {
	s := newSandboxes(t, "enabled = true\nnetwork = \"allowlist\"\nallowlist = [\"listed.example:80\"]")
	out, stderr := s.flynn(exitOK, "exec", `printf 'GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n' | nc 127.0.0.1 3128`)
	if !strings.Contains(out, "403") || !strings.Contains(stderr, "the proxy refused a connection") || !strings.Contains(stderr, "host=other.example port=80") {
		t.Errorf("answered %q; %s", out, stderr)
	}
}
