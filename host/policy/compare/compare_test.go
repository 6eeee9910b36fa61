package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/policy"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// open loads a module as the policy "p".
func open(t testing.TB, wasm []byte, isolation string, kinds ...string) *policy.Module {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.wasm")
	if err := os.WriteFile(path, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := policy.Open(t.Context(), policy.Source{Name: "p", Path: path, Kinds: kinds, Isolation: isolation, Limits: policy.Limits{Wall: 10 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// always answers every tool call alike.
func always(decision, rule int64) []byte {
	return w.Policy(1).Hook("flynn_tool", "", w.I64(decision|rule<<8))
}

// byLength denies what comes in a frame of more than n bytes.
// nolint
func byLength(n int32) []byte {
	return w.Policy(1).Hook("flynn_tool", "", w.I64(abi.ToolDeny|1<<8), w.I64(0), w.LocalGet(0), w.I32(n), w.Op(0x4b), w.Op(0x1b)) // gt_u, select
}

func toolFacts(n int) policy.ToolFacts {
	f := policy.ToolFacts{Agent: "main", Session: "s", Tool: fmt.Sprintf("tool-%d", n%3), Effect: "read", Args: json.RawMessage(`{"n":1}`)}
	f.Message.Channel, f.Message.Sender.ID, f.Message.Text = "irc", "alice", "hello"
	f.Role, f.Door, f.Now, f.Seed = "guest", "channel", noon.Add(time.Duration(n)*time.Second), int64(n)
	return f
}

// decide asks the module n questions.
func decide(t testing.TB, m *policy.Module, n int) []Decision {
	t.Helper()
	var list []Decision
	for k := range n {
		_, r := m.Tool(t.Context(), toolFacts(k))
		list = append(list, Decision{ID: int64(k + 1), At: noon.Add(time.Duration(k) * time.Second), Record: r})
	}
	return list
}

func equal(a, b Report) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }

func source(list []Decision) iter.Seq2[Decision, error] {
	return func(yield func(Decision, error) bool) {
		for _, d := range list {
			if !yield(d, nil) {
				return
			}
		}
	}
}

func run(t testing.TB, list []Decision, m *policy.Module, o Options) Report {
	t.Helper()
	r, err := Run(t.Context(), source(list), m, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestACandidateIsCompared(t *testing.T) {
	log := decide(t, open(t, always(abi.ToolDeny, 7), "", policy.KindTool), 1000)
	for name, c := range map[string]struct {
		candidate []byte
		changed   int64
		effect    Effect
		change    Kind
		is, why   string
	}{
		"the same":           {candidate: always(abi.ToolDeny, 7)},
		"another reason":     {candidate: always(abi.ToolDeny, 8), change: KindReason, effect: Other, is: "deny", why: "rule 8"},
		"looser":             {candidate: always(abi.ToolAsk, 9), changed: 1000, change: KindAnswer, effect: Looser, is: "ask", why: "rule 9"},
		"it fails":           {candidate: always(77, 0), changed: 1000, change: KindAnswer, effect: Other, is: "deny", why: "failed: answer"},
		"it denies and asks": {candidate: always(abi.ToolDeny|abi.ToolAsk, 7), changed: 1000, change: KindAnswer, effect: Stricter, is: "deny, ask", why: "rule 7"},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, log, open(t, c.candidate, "", policy.KindTool), Options{Workers: 2})
			if r.Read != 1000 || r.Compared != 1000 || r.Changed != c.changed || len(r.Skipped) != 0 {
				t.Fatalf("%+v", r)
			}
			if c.change == KindNone {
				if len(r.Groups) != 0 {
					t.Fatalf("groups %+v", r.Groups)
				}
				return
			}
			if len(r.Groups) != 1 {
				t.Fatalf("groups %+v", r.Groups)
			}
			g := r.Groups[0]
			if g.Change != c.change || g.Effect != c.effect || g.Was != "deny" || g.WasWhy != "rule 7" || g.Is != c.is || g.IsWhy != c.why || g.Count != 1000 || g.Share != 1 {
				t.Errorf("%+v", g)
			}
			want := []Example{
				{1, noon, "irc", "irc:alice", "tool-0"}, {2, noon.Add(time.Second), "irc", "irc:alice", "tool-1"}, {3, noon.Add(2 * time.Second), "irc", "irc:alice", "tool-2"},
			}
			if fmt.Sprint(g.Examples) != fmt.Sprint(want) {
				t.Errorf("examples %+v", g.Examples)
			}
		})
	}
}

func TestRunEndsWithItsSource(t *testing.T) {
	m := open(t, always(0, 0), "", policy.KindTool)
	broken := errors.New("the disk is gone")
	_, err := Run(t.Context(), func(yield func(Decision, error) bool) { yield(Decision{}, broken) }, m, Options{})
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	endless := func(yield func(Decision, error) bool) {
		d := decide(t, m, 1)[0]
		for n := 0; yield(d, nil); n++ {
			if n == 1000 {
				cancel()
			}
		}
	}
	if r, err := Run(ctx, endless, m, Options{}); !errors.Is(err, context.Canceled) || r.Changed != 0 {
		t.Errorf("%v: %+v", err, r)
	}
}
