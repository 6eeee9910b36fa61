package selftest

import (
	"strings"
	"testing"

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
		"engine failure", "crash and second instance",
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
