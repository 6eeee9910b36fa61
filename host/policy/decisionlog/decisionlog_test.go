package decisionlog

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/compare"
	"github.com/flynnhost/flynn/host/policy/journal"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// curious is a policy that asks for all of the text and for the argument /n, and answers with their lengths in its rule.
func curious() []byte {
	m := w.Policy(4)
	get := m.Import("flynn1", "get", "iiii>i")
	arg := m.Import("flynn1", "arg", "iiii>i")
	return m.Hook("flynn_tool", "", w.I32(80_000), w.I32('/'), store8(), w.I32(80_001), w.I32('n'), store8(),
		w.I32(int32(abi.Text)), w.I32(0), w.I32(90_000), w.I32(100_000), w.Call(get),
		w.I32(80_000), w.I32(2), w.I32(90_000), w.I32(100_000), w.Call(arg), w.Op(0x6a),
		w.Op(0xad), w.I64(0xffff), w.Op(0x83), w.I64(8), w.Op(0x86), w.I64(abi.ToolAsk), w.Op(0x84))
}

func store8() []byte { return append([]byte{0x3a, 0}, w.Unsigned(0)...) }

func open(t testing.TB, wasm []byte) *policy.Module {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.wasm")
	if err := os.WriteFile(path, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	limits := policy.Limits{Wall: 10 * time.Second} // a busy machine is no fault of the policy
	m, err := policy.Open(t.Context(), policy.Source{Name: "p", Path: path, Kinds: []string{policy.KindTool}, Limits: limits})
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

func openStore(t testing.TB) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func facts(text, arg string, seed int64) policy.ToolFacts {
	args, _ := json.Marshal(map[string]string{"n": arg})
	f := policy.ToolFacts{Agent: "main", Session: "s", Tool: "t", Effect: "read", Args: args}
	f.Message.Channel, f.Message.Sender.ID, f.Message.Text = "irc", "alice", text
	f.Role, f.Door, f.Now, f.Seed = "guest", "channel", noon, seed
	return f
}

// TestARecordedRunNeverDiffers writes any decisions to a real store and asks the module that made them again.
func TestARecordedRunNeverDiffers(t *testing.T) {
	m := open(t, curious())
	s := openStore(t)
	n := int64(0)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(rapid.String().Draw(t, "text"), rapid.IntRange(0, 40).Draw(t, "times"))
		arg := rapid.String().Draw(t, "arg")
		_, r := m.Tool(context.Background(), facts(text, arg, rapid.Int64().Draw(t, "seed")))
		if r.Error != "" {
			t.Fatal(r.Error)
		}
		n++
		at := noon.Add(time.Duration(n) * time.Second)
		if err := s.AddDecisions(context.Background(), Rows(at, []policy.Record{r})); err != nil {
			t.Fatal(err)
		}
		report, err := compare.Run(context.Background(), Read(context.Background(), s, journal.DecisionFilter{Since: at}), m, compare.Options{Exact: true, Workers: 1})
		if err != nil || report.Compared != 1 || report.Changed != 0 || len(report.Groups) != 0 {
			t.Fatalf("%v: %+v", err, report)
		}
	})
	all, err := compare.Run(t.Context(), Read(t.Context(), s, journal.DecisionFilter{}), m, compare.Options{Exact: true})
	if err != nil || all.Compared != n || len(all.Groups) != 0 {
		t.Fatalf("%v: %+v", err, all)
	}
}

func TestWhatIsTooLargeIsLeftOutAndSaid(t *testing.T) {
	m := open(t, curious())
	long := strings.Repeat("x", 300<<10)
	for name, f := range map[string]policy.ToolFacts{"text": facts(long, "1", 1), "arguments": facts("hello", long, 1)} {
		t.Run(name, func(t *testing.T) {
			_, r := m.Tool(t.Context(), f)
			rows := Rows(noon, []policy.Record{r})
			if size := len(rows[0].Text) + len(rows[0].Args) + len(rows[0].Calls) + len(rows[0].Frame); size > 100<<10 {
				t.Errorf("the row has %d bytes", size)
			}
			for exact, want := range map[bool]int64{true: 1, false: 1} {
				report, err := compare.Run(t.Context(), Read(t.Context(), list(rows), journal.DecisionFilter{}), m, compare.Options{Exact: exact})
				if err != nil || len(report.Skipped) != 1 || report.Skipped[0] != (compare.Skip{Why: "the log does not hold its whole " + name, Count: want}) {
					t.Errorf("exact %v: %v: %+v", exact, err, report)
				}
			}
		})
	}
}

// list is a log in memory.
type list []journal.Decision

func (l list) EachDecision(context.Context, journal.DecisionFilter) iter.Seq2[journal.Decision, error] {
	return func(yield func(journal.Decision, error) bool) {
		for _, d := range l {
			if !yield(d, nil) {
				return
			}
		}
	}
}

func TestDamagedRows(t *testing.T) {
	m := open(t, curious())
	_, r := m.Tool(t.Context(), facts("hello", "1", 1))
	good := Rows(noon, []policy.Record{r})[0]
	for name, spoil := range map[string]func(*journal.Decision){
		"calls":            func(d *journal.Decision) { d.Calls = []byte("{") },
		"frame":            func(d *journal.Decision) { d.Frame = d.Frame[:20] },
		"no frame":         func(d *journal.Decision) { d.Frame = nil },
		"kind of frame":    func(d *journal.Decision) { d.Kind = policy.KindRoute },
		"a table's answer": func(d *journal.Decision) { d.Kind = "route_table" },
		"other arguments":  func(d *journal.Decision) { d.Args = []byte(`{"n":"22"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			d := good
			spoil(&d)
			report, err := compare.Run(t.Context(), Read(t.Context(), list{d, good}, journal.DecisionFilter{}), m, compare.Options{})
			if err != nil || report.Compared != 1 || report.Changed != 0 {
				t.Errorf("%v: %+v", err, report)
			}
		})
	}
}

// FuzzRecord reads any host calls of any row.
func FuzzRecord(f *testing.F) {
	for _, seed := range []string{`[]`, `null`, `[{"name":"get","args":"CQAAAAAAAAA=","ret":5,"data":"aGVsbG8="}]`, `[{"name":"...","ret":9,"sum":"00"}]`, `{`, `[{"ret":1e99}]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, calls []byte) {
		r, err := Record(&journal.Decision{Calls: calls})
		if err != nil {
			return
		}
		for _, c := range r.Calls {
			_ = c.String()
		}
		again := row(noon, &r)
		back, err := Record(&again)
		if err != nil {
			t.Fatal(err)
		}
		if kept := policy.TrimCalls(r.Calls); len(kept) > 0 && !reflect.DeepEqual(fmt.Sprint(kept), fmt.Sprint(back.Calls)) {
			t.Fatalf("%v became %v", kept, back.Calls)
		}
	})
}
