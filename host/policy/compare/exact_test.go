package compare

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/policy"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
)

// counting answers with the number of its calls in this memory; its fuel is always the same.
func counting() []byte {
	m := w.Policy(1)
	return m.Hook("flynn_tool", "", w.I32(8), w.I32(8), w.Load(0x28, 0), w.I32(1), w.Op(0x6a), w.Load(0x36, 0),
		w.I32(8), w.Load(0x28, 0), w.Op(0xad), w.I64(0xffff), w.Op(0x83), w.I64(8), w.Op(0x86))
}

// growing answers always alike and takes a step more each time.
func growing() []byte {
	m := w.Policy(1)
	return m.Hook("flynn_tool", "i", w.I32(8), w.I32(8), w.Load(0x28, 0), w.I32(1), w.Op(0x6a), w.Load(0x36, 0),
		w.I32(8), w.Load(0x28, 0), w.LocalSet(1),
		w.Loop(w.LocalGet(1), w.I32(1), w.Op(0x6b), w.LocalSet(1), w.LocalGet(1), w.BrIf(0)), w.I64(0))
}

func TestTheSameModuleNeverDrifts(t *testing.T) {
	m := open(t, byLength(300), "", policy.KindTool)
	rapid.Check(t, func(rt *rapid.T) {
		f := toolFacts(rapid.IntRange(0, 1000).Draw(rt, "n"))
		f.Message.Text = rapid.String().Draw(rt, "text")
		_, record := m.Tool(t.Context(), f)
		r := run(t, []Decision{{ID: 1, At: noon, Record: record}}, m, Options{Exact: true})
		if r.Compared != 1 || len(r.Groups) != 0 || len(r.Skipped) != 0 {
			rt.Fatalf("%+v", r)
		}
	})
}

func TestDriftIsNamed(t *testing.T) {
	m := open(t, caller(), "", policy.KindTool)
	for name, c := range map[string]struct {
		spoil  func(*Decision)
		change Kind
		detail string
	}{
		"nothing":         {spoil: func(*Decision) {}},
		"fuel":            {func(d *Decision) { d.Fuel += 3 }, KindFuel, "fuel -3"},
		"answer":          {func(d *Decision) { d.Answer = "ask" }, KindAnswer, ""},
		"another rule":    {func(d *Decision) { d.Raw = 77 << 8 }, KindAnswer, ""},
		"a call's answer": {func(d *Decision) { d.Calls[0].Data = []byte("irk"); d.Fuel++ }, KindCall, `call 1: get channel 0 = "irc", was get channel 0 = "irk"`},
		"a call more":     {func(d *Decision) { d.Calls = append(d.Calls, policy.HostCall{Name: "data", Ret: -1}) }, KindCall, `call 2: none, was data = absent`},
		"a call less":     {func(d *Decision) { d.Calls = nil }, KindCall, `call 1: get channel 0 = "irc", was none`},
	} {
		t.Run(name, func(t *testing.T) {
			log := decide(t, m, 5)
			for k := range log {
				c.spoil(&log[k])
			}
			r := run(t, log, m, Options{Exact: true})
			if c.change == KindNone {
				if r.Compared != 5 || len(r.Groups) != 0 {
					t.Fatalf("%+v", r)
				}
				return
			}
			if r.Changed != 5 || len(r.Groups) != 1 || r.Groups[0].Change != c.change || r.Groups[0].Detail != c.detail {
				t.Errorf("%+v", r)
			}
		})
	}
}

// caller asks for the channel.
func caller() []byte {
	m := w.Policy(1)
	get := m.Import("flynn1", "get", "iiii>i")
	return m.Hook("flynn_tool", "", w.I32(1), w.I32(0), w.I32(1024), w.I32(100), w.Call(get), w.Op(0x1a), w.I64(0))
}

func TestAnExactReplayLeavesOut(t *testing.T) {
	m := open(t, always(0, 0), "", policy.KindTool)
	for want, spoil := range map[string]func(*Decision){
		"another module, data or limits made it":                  func(d *Decision) { d.Digest = "other" },
		"it failed for want of time, which does not repeat":       func(d *Decision) { d.Error = "deadline: more than 50ms" },
		"its row cannot be read":                                  func(d *Decision) { d.Frame = d.Frame[:8] },
		"it is about a route, which the policy does not decide":   func(d *Decision) { d.Record.Kind = policy.KindRoute },
		"it is about a strange, which the policy does not decide": func(d *Decision) { d.Record.Kind = "strange" },
	} {
		log := decide(t, m, 1)
		spoil(&log[0])
		r := run(t, log, m, Options{Exact: true})
		if r.Read != 1 || r.Compared != 0 || len(r.Skipped) != 1 || r.Skipped[0].Why != want {
			t.Errorf("%s: %+v", want, r)
		}
	}
}

// TestWarmPolicies tells hidden state that shows in the answer from one that shows in fuel alone.
func TestWarmPolicies(t *testing.T) {
	answers := open(t, counting(), policy.IsolationWarm, policy.KindTool)
	r := run(t, decide(t, answers, 50), answers, Options{Exact: true})
	if r.Changed < 40 || r.Suspects != 0 {
		t.Errorf("a policy that counts: %+v", r)
	}
	fuel := open(t, growing(), policy.IsolationWarm, policy.KindTool)
	r = run(t, decide(t, fuel, 50), fuel, Options{Exact: true})
	if r.Changed != 0 || r.Suspects < 40 || r.Groups[0].Change != KindWarm || !strings.HasPrefix(r.Groups[0].Detail, "fuel -") {
		t.Errorf("a policy that slows down: %+v", r)
	}
	plain := open(t, byLength(300), policy.IsolationWarm, policy.KindTool)
	if r = run(t, decide(t, plain, 50), plain, Options{Exact: true}); len(r.Groups) != 0 {
		t.Errorf("a policy without state: %+v", r)
	}
	pure := open(t, counting(), policy.IsolationPure, policy.KindTool)
	if r = run(t, decide(t, pure, 50), pure, Options{Exact: true}); len(r.Groups) != 0 {
		t.Errorf("a policy that would count, reset each time: %+v", r)
	}
}

func TestEffect(t *testing.T) {
	for _, c := range []struct {
		kind, was, is string
		want          Effect
	}{
		{"tool", "none", "none", Other},
		{"tool", "deny", "none", Looser},
		{"tool", "deny", "ask", Looser},
		{"tool", "deny, ask", "ask", Looser},
		{"tool", "ask", "sandbox", Looser},
		{"tool", "sandbox a", "sandbox b", Looser},
		{"tool", "ask, sandbox", "ask", Looser},
		{"tool", "none", "deny", Stricter},
		{"tool", "ask", "deny", Stricter},
		{"tool", "ask", "ask, sandbox web", Stricter},
		{"tool", "garbage", "ask", Looser},
		{"tool", "ask", "", Looser},
		{"route", "drop", "agent a", Looser},
		{"route", "drop", "abstain", Looser},
		{"route", "agent a", "drop", Stricter},
		{"route", "agent a", "agent b", Other},
		{"route", "abstain", "agent b", Other},
	} {
		if got := EffectOf(c.kind, c.was, c.is); got != c.want {
			t.Errorf("%s: %q to %q is %s, want %s", c.kind, c.was, c.is, got, c.want)
		}
	}
}

// TestWorkersAgree compares one worker's report with that of several, byte for byte.
func TestWorkersAgree(t *testing.T) {
	log := decide(t, open(t, byLength(4000), "", policy.KindTool), 3000)
	candidate := open(t, byLength(0), "", policy.KindTool)
	one, four := run(t, log, candidate, Options{Workers: 1}), run(t, log, candidate, Options{Workers: 4})
	if one.Took, four.Took = 0, 0; len(one.Groups) == 0 || !equal(one, four) {
		t.Errorf("one worker %+v, four %+v", one, four)
	}
}

func TestAFloodOfReasonsIsBounded(t *testing.T) {
	tally := NewTally(1)
	d := Decision{ID: 1, At: noon, Record: policy.Record{Policy: "p", Kind: "tool", Answer: "ask"}}
	for k := range 3 * maxGroups {
		is := d.Record
		is.Answer, is.Reason = "deny", strings.Repeat("x", k)+"é"
		if k == 3*maxGroups-1 {
			is.Answer = "none"
		}
		tally.Add(&d, &is, KindAnswer, "")
	}
	r := tally.Report()
	if len(r.Groups) > maxGroups+1 || r.Changed != 3*maxGroups || r.Looser == 0 {
		t.Errorf("%d groups, %d changed, %d looser", len(r.Groups), r.Changed, r.Looser)
	}
}
