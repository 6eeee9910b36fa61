package selftest

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		name, stdout string
		status       Status
		detail       string
	}{
		{"held", "held: refused\n", Pass, "refused"},
		{"breach", "breach: got in\n", Fail, "got in"},
		{"last line counts", "held: first\nbreach: second\n", Fail, "second"},
		{"bytes before it", "\x00\x02{}\nheld: after noise\n", Pass, "after noise"},
		{"silence", "", "", ""},
		{"half a word", "hel", "", ""},
		{"word inside a line", "not held: x\n", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := answer(machine.Result{Stdout: []byte(c.stdout)})
			if f.Status != c.status || f.Detail != c.detail || (err == nil) != (c.status != "") {
				t.Errorf("got %+v (%v)", f, err)
			}
		})
	}
}

// FuzzAnswer: what comes out of a sandbox is hostile, and only the exact word makes a pass.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("held: refused\n"))
	f.Add([]byte("\n\n: \n"))
	f.Fuzz(func(t *testing.T, stdout []byte) {
		got, err := answer(machine.Result{Stdout: stdout})
		if err == nil && got.Status == Pass && !strings.Contains(string(stdout), "held") {
			t.Errorf("%q passes", stdout)
		}
	})
}

// Where packets could leave, nothing is tried at all: the target is nil.
func TestNoPacketWithANetwork(t *testing.T) {
	subject := &Subject{Spec: spec.Spec{Network: "bridge"}}
	tried := 0
	for _, p := range Probes() {
		if p.Row != metadataRow && (p.Row != networkRow || strings.HasSuffix(p.Name, "-socket") || p.Name == "network/interfaces") {
			continue
		}
		tried++
		if f, err := p.Run(t.Context(), subject); err != nil || f.Status != Weak {
			t.Errorf("%s: %+v (%v)", p.Name, f, err)
		}
	}
	if tried < 10 {
		t.Errorf("only %d probes send packets", tried)
	}
}

func TestEveryProbeIsComplete(t *testing.T) {
	seen, rows := map[string]bool{}, map[string]bool{}
	for _, p := range Probes() {
		if p.Name == "" || p.Row == "" || p.Why == "" || p.Setting == "" || p.Run == nil || p.Control == nil {
			t.Errorf("%q lacks something", p.Name)
		}
		if seen[p.Name] {
			t.Errorf("%q is there twice", p.Name)
		}
		seen[p.Name], rows[p.Row] = true, true
	}
	if len(seen) < 60 || len(rows) < 22 {
		t.Errorf("%d probes in %d rows", len(seen), len(rows))
	}
}

func TestReport(t *testing.T) {
	failed, held := &ControlOutcome{Failed: true}, &ControlOutcome{}
	for _, c := range []struct {
		name    string
		outcome Outcome
		ok      bool
	}{
		{"pass", Outcome{Status: Pass}, true},
		{"pass with its control", Outcome{Status: Pass, Control: failed}, true},
		{"pass that shows nothing", Outcome{Status: Pass, Control: held}, false},
		{"weak", Outcome{Status: Weak}, true},
		{"fail", Outcome{Status: Fail}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Report
			r.Add(c.outcome)
			if r.OK() != c.ok || r.Passed+r.Weak+r.Failed != 1 {
				t.Errorf("report %+v", r)
			}
		})
	}
}

// TestExcuses: what an engine says that it cannot hold is no failure, unless the configuration demands it or every container must have it.
func TestExcuses(t *testing.T) {
	users, filter := Probe{Feature: driver.UserNamespaces}, Probe{Feature: driver.Seccomp}
	claims := driver.Capabilities{Features: []driver.Feature{driver.UserNamespaces, driver.Seccomp}}
	lacks := driver.Capabilities{Lacks: []driver.Lack{{Limit: driver.PidsLimit, Why: "no groups"}}}
	for _, c := range []struct {
		name  string
		probe Probe
		has   driver.Capabilities
		spec  spec.Spec
		says  string // "": no excuse
	}{
		{"an attack of no kind", Probe{}, lacks, spec.Spec{}, ""},
		{"a limit", Probe{Limit: driver.PidsLimit}, lacks, spec.Spec{}, "cannot hold it: no groups"},
		{"another limit", Probe{Limit: driver.CPULimit}, lacks, spec.Spec{}, ""},
		{"a feature", users, lacks, spec.Spec{}, "does not claim user-namespaces"},
		{"a feature that is claimed", users, claims, spec.Spec{Prefers: []driver.Feature{driver.UserNamespaces}}, ""},
		{"a feature that is required", users, lacks, spec.Spec{Requires: []driver.Feature{driver.UserNamespaces}}, ""},
		{"the filter", filter, lacks, spec.Spec{}, ""},
		{"the filter, preferred", filter, lacks, spec.Spec{Prefers: []driver.Feature{driver.Seccomp}}, "does not claim seccomp"},
		{"the filter, preferred and claimed", filter, claims, spec.Spec{Prefers: []driver.Feature{driver.Seccomp}}, ""},
		{"the filter, preferred and required", filter, lacks, spec.Spec{Requires: []driver.Feature{driver.Seccomp}, Prefers: []driver.Feature{driver.Seccomp}}, ""},
	} {
		got := (&site{has: c.has, spec: c.spec}).excuse(c.probe)
		if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q, want %q", c.name, got, c.says)
		}
	}
}

// TestEveryRow keeps the threat table whole: each row has probes.
func TestEveryRow(t *testing.T) {
	covered := map[string]bool{}
	for _, p := range Probes() {
		covered[p.Row] = true
	}
	for _, row := range []string{
		"network off", "metadata", "proxy tricks", "fork bomb", "memory bomb", "CPU and timer", "disk fill", "/proc, /sys", "engine socket",
		"namespaces", "symlink escape", "special files", "setuid", "kernel keyring", "supervisor attack", "timeout escape", "abort",
		"output flood", "bytes of output", "exit codes", "archive bombs", "path traversal", "env leak", "bridges", "cross-session",
		"engine failure", "crash and second instance", "snapshots",
	} {
		if !covered[row] {
			t.Errorf("no probe of row %q", row)
		}
		delete(covered, row)
	}
	for row := range covered {
		t.Errorf("row %q is missing here", row)
	}
}
