package gate

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/policy/journal"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// answering is a tool policy that always answers so.
func answering(bits int64) []byte { return w.Policy(1).Hook("flynn_tool", "", w.I64(bits)) }

// candidate loads a module as the engine does before it asks the gate.
func candidate(t *testing.T, wasm []byte, gate policy.ReplayGate) policy.Candidate {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.wasm")
	if err := os.WriteFile(path, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	source := policy.Source{Name: "p", Path: path, Kinds: []string{policy.KindTool}, Replay: gate}
	m, err := policy.Open(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return policy.Candidate{Module: m, Source: source, Wasm: wasm}
}

// decided writes n decisions of a module to the log.
func decided(t *testing.T, s *sqlite.Store, wasm []byte, n int) {
	t.Helper()
	c := candidate(t, wasm, policy.ReplayGate{})
	for range n {
		_, r := c.Tool(t.Context(), policy.ToolFacts{Facts: policy.Facts{Role: "guest", Now: time.Now()}, Tool: "shell", Args: []byte("{}")})
		if err := s.AddDecisions(t.Context(), decisionlog.Rows(time.Now(), []policy.Record{r})); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReplayGate(t *testing.T) {
	one := policy.ReplayGate{On: true, Change: 0.1, Loosened: 0}
	for _, c := range []struct {
		name        string
		deny, allow int // recorded
		is          int64
		gate        policy.ReplayGate
		want        string
	}{
		{"an empty log", 0, 0, abi.ToolDeny, one, ""},
		{"nothing changes", 10, 0, abi.ToolDeny, one, ""},
		{"little becomes stricter", 19, 1, abi.ToolDeny, one, ""},
		{"too much becomes stricter", 10, 10, abi.ToolDeny, one, "10 of 20 recorded decisions change (50%), max_change is 10%"},
		{"little is loosened", 1, 19, 0, one, "1 of 20 recorded decisions are loosened (5%), max_loosened is 0%"},
		{"as much is loosened as may be", 1, 19, 0, policy.ReplayGate{On: true, Change: 0.1, Loosened: 0.05}, ""},
		{"only loosening counts", 10, 10, 0, policy.ReplayGate{On: true, Change: 1, Loosened: 0.1}, "10 of 20 recorded decisions are loosened"},
		{"the gate is off", 10, 10, 0, policy.ReplayGate{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := sqlite.Open(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			decided(t, s, answering(abi.ToolDeny), c.deny)
			decided(t, s, answering(0), c.allow)
			err = Gate{Log: s}.Prove(t.Context(), candidate(t, answering(c.is), c.gate))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}

// brokenLog is a log whose rows cannot be read, or make no sense.
type brokenLog struct {
	since error
	rows  error
}

func (l brokenLog) LatestDecisionsSince(context.Context, string, int) (time.Time, error) {
	return time.Now(), l.since
}

func (l brokenLog) EachDecision(context.Context, journal.DecisionFilter) iter.Seq2[journal.Decision, error] {
	return func(yield func(journal.Decision, error) bool) {
		yield(journal.Decision{Kind: policy.KindTool, Policy: "p", Frame: []byte("no frame"), Answer: "deny"}, l.rows)
	}
}

func TestReplayGateFailsClosed(t *testing.T) {
	broken := errors.New("disk error")
	for _, c := range []struct {
		name string
		log  brokenLog
		want string
	}{
		{"the log cannot be searched", brokenLog{since: broken}, "disk error"},
		{"the log cannot be read", brokenLog{rows: broken}, "disk error"},
		{"no row makes sense", brokenLog{}, "none of 1 recorded decisions can be asked again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Gate{Log: c.log}.Prove(t.Context(), candidate(t, answering(0), policy.ReplayGate{On: true, Change: 0.5, Loosened: 0.5}))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}
