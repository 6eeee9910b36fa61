//go:build linux

package ps

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	tail := strings.Repeat(" 0", 15) + " 77"
	for _, c := range []struct {
		name, line string
		want       Process
		ok         bool
	}{
		{"plain", "12 (sleep) S 1 10 9" + tail, Process{Parent: 1, Group: 10, Session: 9, Started: 77}, true},
		{"name with a parenthesis", "12 (a) b) R 1 10 9" + tail, Process{Parent: 1, Group: 10, Session: 9, Started: 77}, true},
		{"name like fields", "12 (x) R 1 2 3 (y) S 4 5 6" + tail, Process{Parent: 4, Group: 5, Session: 6, Started: 77}, true},
		{"zombie", "12 (a) b) Z 1 10 9" + tail, Process{}, false},
		{"cut", "12 (sleep) S 1", Process{}, false},
		{"empty", "", Process{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, ok := parseStat([]byte(c.line)); ok != c.ok || got != c.want {
				t.Errorf("got %+v, %v; want %+v, %v", got, ok, c.want, c.ok)
			}
		})
	}
	if _, ok := parseStat([]byte("12 (sleep) S a b c" + tail)); ok {
		t.Error("words were read as numbers")
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (sleep) S 1 10 9" + strings.Repeat(" 1", 16)))
	f.Add([]byte("12 (a) b) Z 1 10 9"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if p, ok := parseStat(raw); ok && len(bytes.Fields(raw)) < 18 {
			t.Fatalf("%q is %+v", raw, p)
		}
	})
}

// A child is seen until it ends, and can be waited for after it has been awaited.
func TestAChild(t *testing.T) {
	child := exec.Command("cat")
	child.Env = []string{"MINE=1", "EMPTY="}
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	p, ok := Look(pid)
	if !ok || p.PID != pid || p.Parent != os.Getpid() || p.Started == 0 {
		t.Errorf("the child is %+v, %v", p, ok)
	}
	if all, err := Own(); err != nil || !slices.Contains(all, p) {
		t.Errorf("the child is not among %d processes: %v", len(all), err)
	}
	for variable, want := range map[string]bool{"MINE=1": true, "EMPTY=": true, "MINE=": false, "MINE": false, "": false} {
		if HasVariable(pid, variable) != want {
			t.Errorf("variable %q: want %v", variable, want)
		}
	}
	if End(pid, func() bool { return false }) {
		t.Error("killed a stranger")
	}
	in.Close()
	if err := AwaitExit(pid); err != nil {
		t.Error(err)
	}
	if _, ok := Look(pid); ok {
		t.Error("a zombie lives")
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	if err := AwaitExit(pid); err == nil {
		t.Error("waited for nobody")
	}
}

func TestEnd(t *testing.T) {
	child := exec.Command("cat")
	if _, err := child.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if !End(child.Process.Pid, func() bool { return true }) {
		t.Error("not killed")
		_ = child.Process.Kill()
	}
	if err := child.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("ended with %v", err)
	}
}
