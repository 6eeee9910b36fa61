package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/decisionlog"
	"github.com/flynnhost/flynn/host/policy/history"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// always answers every tool call alike.
func always(decision, rule int64) []byte {
	return w.Policy(1).Hook("flynn_tool", "", w.I64(decision|rule<<8))
}

// spinning answers no tool call.
func spinning() []byte { return w.Policy(1).Hook("flynn_tool", "", w.Loop(w.Br(0)), w.I64(0)) }

// chain is a real chain of one policy, guard, that denies everything, with n decisions in the log of a real store.
func chain(t *testing.T, n int) (*Trials, Policies, *sqlite.Store) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	dir := t.TempDir()
	path := filepath.Join(dir, "policy.wasm")
	write(t, path, string(always(abi.ToolDeny, 7)))
	e, err := policy.New(t.Context(), policy.Config{Sources: []policy.Source{{Name: "guard", Path: path, Kinds: []string{policy.KindTool}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	var records []policy.Record
	for k := range n {
		_, r := ask(t, e, k)
		records = append(records, r...)
	}
	if err := s.AddDecisions(t.Context(), decisionlog.Rows(time.Now().Add(-time.Hour), records)); err != nil {
		t.Fatal(err)
	}
	p := Policies{Engine: e, Store: s}
	return NewTrials(p, s), p, s
}

func ask(t *testing.T, e *policy.Engine, k int) (policy.Restrictions, []policy.Record) {
	t.Helper()
	set := e.Pin()
	defer set.Release()
	f := policy.ToolFacts{Agent: "main", Session: "s", Tool: fmt.Sprintf("tool-%d", k%3), Effect: "read", Args: json.RawMessage(`{"n":1}`)}
	f.Message.Channel, f.Message.Sender.ID, f.Message.Text = "irc", "\u202ealice\x1b[2J", "hello"
	f.Role, f.Door, f.Now = "guest", "channel", time.Now()
	return set.Tool(t.Context(), f)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAModuleIsReplayedOverTheLog(t *testing.T) {
	trials, p, _ := chain(t, 1000)
	replay := func(wasm []byte) (gateway.PolicyReplay, error) {
		return trials.ReplayPolicy(t.Context(), "guard", time.Time{}, bytes.NewReader(wasm))
	}
	r, err := replay(always(abi.ToolAsk, 9))
	if err != nil || r.Compared != 1000 || r.Changed != 1000 || r.Looser != 1000 || r.Cut != "" || len(r.Differences) != gateway.MaxDifferences {
		t.Fatalf("%v: %d of %d changed, %d looser, %d shown, %s", err, r.Changed, r.Compared, r.Looser, len(r.Differences), r.Cut)
	}
	if d := r.Differences[0]; d.ID != 1 || d.Was != "deny" || d.Is != "ask" || d.Tool != "tool-0" || len(r.Groups[0].Examples) != maxGroupExamples {
		t.Errorf("the first difference is %+v of %+v", d, r.Groups[0])
	}
	if r, err = replay(always(abi.ToolDeny, 7)); err != nil || r.Changed != 0 || r.Differences == nil {
		t.Errorf("the same module changes %d decisions: %v", r.Changed, err)
	}
	var bad gateway.BadRequest
	for name, wasm := range map[string][]byte{
		"nothing": nil, "not Wasm": []byte("<img src=x>"), "cut": always(1, 1)[:40], "of another kind": w.Policy(1).Hook("flynn_route", "", w.I64(0)),
	} {
		if _, err := replay(wasm); !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := replay(make([]byte, gateway.MaxModule+1)); !errors.Is(err, gateway.ErrNotKept) {
		t.Errorf("a module that is too large: %v", err)
	}
	if _, err := trials.ReplayPolicy(t.Context(), "nobody", time.Time{}, bytes.NewReader(nil)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a policy that is not there: %v", err)
	}
	if st := p.Engine.Status()[0]; st.State != policy.StateRunning || st.Decisions != 1000 {
		t.Errorf("the policy in force is %s after %d decisions", st.State, st.Decisions)
	}
}

// TestALoopingModuleEndsInTime: live decisions are made meanwhile, a second replay is refused, and what was found by then is shown.
func TestALoopingModuleEndsInTime(t *testing.T) {
	trials, p, _ := chain(t, 2000)
	trials.wall = time.Second
	body, opened := io.Pipe()
	done := make(chan gateway.PolicyReplay)
	go func() {
		r, err := trials.ReplayPolicy(context.WithoutCancel(t.Context()), "guard", time.Time{}, body)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	wasm := spinning()
	if _, err := opened.Write(wasm[:10]); err != nil { // read, so the replay is under way
		t.Fatal(err)
	}
	if _, err := trials.ReplayPolicy(t.Context(), "guard", time.Time{}, bytes.NewReader(wasm)); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a second replay at the same time: %v", err)
	}
	if _, err := opened.Write(wasm[10:]); err != nil {
		t.Fatal(err)
	}
	opened.Close()
	for {
		engine, _ := p.Engine.(*policy.Engine)
		if r, _ := ask(t, engine, 1); !r.Deny {
			t.Errorf("a live decision is %+v", r)
		}
		select {
		case r := <-done:
			t.Logf("%d compared, cut: %s", r.Compared, r.Cut)
			if r.Cut == "" && r.Compared != 2000 || r.Compared > 0 && r.Groups[0].IsWhy != "failed: fuel" {
				t.Errorf("%d compared, %q, %+v", r.Compared, r.Cut, r.Groups)
			}
			if _, err := trials.ReplayPolicy(t.Context(), "guard", time.Time{}, bytes.NewReader(always(1, 1))); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			return
		default:
		}
	}
}

// TestSourceAndCases are those of the folder of the module, and of no other.
func TestSourceAndCases(t *testing.T) {
	trials, p, _ := chain(t, 0)
	if _, err := p.PolicySource(t.Context(), "guard"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a module without a folder has a source: %v", err)
	}
	if _, err := trials.RunPolicyCases(t.Context(), "guard"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a module without a folder has cases: %v", err)
	}
	source, err := p.Engine.Source("guard")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(source.Path)
	write(t, dir+"/policy.toml", "name = \"guard\"\nversion = \"1.0.0\"\nabi = \"flynn 1\"\nkinds = [\"tool\"]\nlanguage = \"wasm\"\n[build]\noutput = \"policy.wasm\"\n")
	write(t, dir+"/cases/a.toml", "[[case]]\nname = \"\u202e<img>\"\nfacts = {tool = \"x\"}\nwant = {deny = true}\n[[case]]\nname = \"wrong\"\nwant = {ask = true}\n")
	write(t, dir+"/rules.txt", strings.Repeat("\u00e4", 64<<10))
	write(t, dir+"/.secret", "no")
	if err := os.Symlink("/etc/passwd", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	files, err := p.PolicySource(t.Context(), "guard")
	var names []string
	for _, f := range files {
		names = append(names, fmt.Sprint(f.Name, f.Cut))
	}
	if got := strings.Join(names, " "); err != nil || got != "policy.tomlfalse rules.txttrue cases/a.tomlfalse" {
		t.Errorf("the source is %s: %v", got, err)
	}
	report, err := trials.RunPolicyCases(t.Context(), "guard")
	if err != nil || report.Passed != 1 || report.Failed != 1 || report.Cases[1].Name != "wrong" || len(report.Cases[1].Diffs) == 0 {
		t.Errorf("%v: %+v", err, report)
	}
	if d, err := p.Policy(t.Context(), "guard"); err != nil || !d.HasSource || d.State != "running" || d.FuelLimit == 0 {
		t.Errorf("%v: %+v", err, d)
	}
	if _, err := p.Policy(t.Context(), "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a policy that is not there: %v", err)
	}
}

// TestTenThousandDecisions are listed in parts, with every filter, and each shows its inputs.
func TestTenThousandDecisions(t *testing.T) {
	_, _, s := chain(t, 10_000)
	d := Decisions{Store: s}
	q := gateway.DecisionQuery{Policy: "guard", Tool: "tool-1", Person: "irc:\u202ealice\x1b[2J", Outcome: "deny", Agent: "main", Limit: 200}
	seen, parts, last := map[int64]bool{}, 0, int64(1<<62)
	for {
		list, next, err := d.Decisions(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list {
			if seen[one.ID] || one.ID >= last || one.Tool != "tool-1" {
				t.Fatalf("%+v comes twice or out of order", one)
			}
			seen[one.ID], last = true, one.ID
		}
		parts++
		if q.Cursor = next; next == "" {
			break
		}
	}
	if len(seen) != 3333 || parts < 17 {
		t.Errorf("%d decisions in %d parts", len(seen), parts)
	}
	q = gateway.DecisionQuery{Tool: "none such", Limit: 10}
	if list, next, err := d.Decisions(t.Context(), q); err != nil || len(list) != 0 || next == "" {
		t.Errorf("a search without a find: %v, %q, %v", list, next, err)
	}
	for _, cursor := range []string{"x", "-1", "99999999999999999999", "1 OR 1=1"} {
		if _, _, err := d.Decisions(t.Context(), gateway.DecisionQuery{Cursor: cursor, Limit: 1}); err == nil {
			t.Errorf("cursor %q is taken", cursor)
		}
	}
	one, err := d.Decision(t.Context(), 1)
	if err != nil || len(one.Facts) < 10 || string(one.Args) != `{"n":1}` || one.File == "" {
		t.Errorf("%v: %+v", err, one)
	}
	for _, f := range one.Facts {
		if strings.ContainsAny(f.Value, "\x1b\u202e") {
			t.Errorf("a fact is %q", f.Value)
		}
	}
	if _, err := d.Decision(t.Context(), 1<<40); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a decision that is not there: %v", err)
	}
}

// TestAModuleIsPutInForce: the history names the person, a module that the gate refuses leaves the file as it was, and so does one that cannot be
// written.
func TestAModuleIsPutInForce(t *testing.T) {
	dir, folder := t.TempDir(), t.TempDir()
	s, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	past, err := history.Open(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "policy.wasm")
	first, second, refused := always(abi.ToolDeny, 7), always(abi.ToolAsk, 9), always(abi.ToolDeny, 13)
	write(t, path, string(first))
	e, err := policy.New(t.Context(), policy.Config{
		Sources: []policy.Source{{Name: "guard", Path: path, Kinds: []string{policy.KindTool}}}, History: past,
		Gate: policy.GateFunc(func(_ context.Context, c policy.Candidate) error {
			if bytes.Equal(c.Wasm, refused) {
				return errors.New("case 13 fails")
			}
			return nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	p := Policies{Engine: e, Store: s}
	trials := NewTrials(p, s)
	put := func(wasm []byte) error {
		_, err := trials.PutPolicy(t.Context(), "guard", bytes.NewReader(wasm), "web:ann")
		return err
	}
	file := func(want []byte) {
		t.Helper()
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, want) {
			t.Errorf("the file has %d bytes, want %d (%v)", len(now), len(want), err)
		}
	}
	if err := put(second); err != nil {
		t.Fatal(err)
	}
	file(second)
	st, err := p.Policy(t.Context(), "guard")
	if err != nil || len(st.Versions) == 0 || st.Versions[0].By != "web:ann" || st.Versions[0].Outcome != string(policy.OutcomeInForce) {
		t.Errorf("%v: %+v", err, st.Versions)
	}
	if err := put(refused); !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "case 13 fails") {
		t.Errorf("refused by the gate: %v", err)
	}
	file(second)
	if r, _ := ask(t, e, 0); !r.Ask || r.Deny {
		t.Errorf("the decision is %+v", r)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := put(first); !errors.Is(err, store.ErrConflict) {
		t.Errorf("without a folder: %v", err)
	}
}
