//go:build unix

package plugin

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// debugged is an actor that somebody has started by hand.
func debugged(t *testing.T) (pid int, address string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "plugin:good")
	cmd.Env = []string{"FLYNN_PLUGIN_DEBUG=1", "TMPDIR=/tmp"}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("the process is gone: %v", err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "flynn serve --attach INSTANCE=")
	if err != nil || !ok {
		t.Fatalf("it says %q, %v", line, err)
	}
	return cmd.Process.Pid, address
}

func TestAttachedProcessIsUsedAndNeverEnded(t *testing.T) {
	t.Parallel()
	needProcesses(t)
	pid, address := debugged(t)
	s := start(t, map[string]string{"actor": makePack(t, "good", packOptions{})})
	s.config.Attach = map[string]string{"one": address} // read at a start of the instance
	for range 2 {                                       // let go of, and taken again
		l := &listener{}
		s.add(Instance{Name: "one", Plugin: "actor"}, l)
		if st := s.await("one", Ready); st.Attached != address || st.PID != 0 {
			t.Errorf("status is %+v", st)
		}
		l.more(t, 5)
		if err := s.Remove("one"); err != nil {
			t.Fatal(err)
		}
		if !alive(pid) {
			t.Fatal("the host has ended a process that is not its own")
		}
	}
	s.awaitLog("plugin is attached: it was started by hand")
}

func TestAttachRefuses(t *testing.T) {
	s := start(t, map[string]string{"actor": makePack(t, "good", packOptions{})})
	s.config.Attach = map[string]string{"one": "unix:" + t.TempDir() + "/nothing"}
	s.add(Instance{Name: "one", Plugin: "actor"}, &listener{})
	if st := s.await("one", Backoff); !strings.Contains(st.LastError, "start the plugin with -debug first") {
		t.Errorf("the host says %q", st.LastError)
	}
}

func TestParseAttach(t *testing.T) {
	for _, text := range []string{"", "one", "one=", "one=/tmp/x", "one=unix:x", "=unix:/tmp/x", "o ne=unix:/tmp/x", "one=tcp:127.0.0.1:1"} {
		if _, _, err := ParseAttach(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
	if name, address, err := ParseAttach("one=unix:/tmp/x=y"); err != nil || name != "one" || address != "unix:/tmp/x=y" {
		t.Errorf("got %q, %q, %v", name, address, err)
	}
}
