package sandbox_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// ways are those in which the supervisor of a sandboxtest.Dialed listens.
var ways = map[string]bool{"a Unix socket": false, "TCP": true}

func TestDialedSandbox(t *testing.T) {
	for name, tcp := range ways {
		t.Run(name, func(t *testing.T) {
			h := sandboxtest.Engine(t)
			m, config := h.Manager(t, h.Dialed(t, tcp).Adjust)
			s := get(t, m, "s", config.Spec)
			for i := range 20 {
				if out := shell(t, s, fmt.Sprint("echo ", i)); out != fmt.Sprintln(i) {
					t.Errorf("printed %q", out)
				}
			}
			in := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
			r, err := s.Exec(t.Context(), machine.Command{Script: "cat", Stdin: in, MaxOutput: 8 << 20})
			if err != nil || !bytes.Equal(r.Stdout, in) {
				t.Errorf("%d bytes came back (%v)", len(r.Stdout), err)
			}
			if err := s.WriteFile(t.Context(), "f", in, 0); err != nil {
				t.Error(err)
			}
			if out := shell(t, s, "wc -c <f; ulimit -n; ulimit -Hn"); out != "4194304\n1024\n1024\n" {
				t.Errorf("printed %q", out)
			}
		})
	}
}

// No command reads the identity, in whatever way.
func TestIdentityIsTheSupervisors(t *testing.T) {
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, h.Dialed(t, false).Adjust)
	s := get(t, m, "s", config.Spec)
	for _, script := range []string{
		"cat /.flynn-identity", "cat /proc/1/root/.flynn-identity", "cat /proc/1/environ", "cat /proc/1/mem", "cat /proc/1/maps", "cat /proc/1/fd/*", "ls /proc/1/fd",
		"cat /proc/1/task/*/mem", "dd if=/proc/1/mem bs=4096 count=1 skip=1024", "cp /.flynn-identity .", "ln /.flynn-identity .", "chmod 644 /.flynn-identity",
		"mv /.flynn-identity /tmp", "cat </.flynn-listen/s", "ls /.flynn-listen", "echo x >/.flynn-identity",
	} {
		r, err := s.Exec(t.Context(), machine.Command{Script: script})
		if err != nil || r.ExitCode == 0 || bytes.Contains(r.Stdout, []byte("BEGIN")) {
			t.Errorf("%s: exit code %d, %.200q (%v)", script, r.ExitCode, r.Stdout, err)
		}
	}
	out := shell(t, s, "tr '\\0' ' ' </proc/1/cmdline; env; ls -ln /.flynn-identity")
	if strings.Contains(out, "BEGIN") || strings.Contains(out, "KEY") || !strings.Contains(out, "-r--------") {
		t.Errorf("seen inside: %q", out)
	}
}
