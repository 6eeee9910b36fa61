package policy

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
)

// write puts a module into a file of its own.
func write(t testing.TB, wasm []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.wasm")
	if err := os.WriteFile(path, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// engine runs a chain of sources until the test ends.
func engine(t testing.TB, sources ...Source) *Engine {
	t.Helper()
	e, err := New(context.Background(), Config{Sources: sources})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func someFacts() Facts {
	f := Facts{Role: "member", Door: "channel", Labels: []string{"web:example.com", "sender:guest"}, Now: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Seed: 42}
	f.Message.Channel, f.Message.Sender.ID, f.Message.Text = "irc", "alice", "hello there"
	f.Message.Conversation.ID, f.Message.Conversation.Kind = "#room", "group"
	return f
}

func routeFacts() RouteFacts {
	return RouteFacts{Facts: someFacts(), Agents: []string{"main", "errors"}}
}

func toolFacts() ToolFacts {
	return ToolFacts{Facts: someFacts(), Agent: "main", Session: "s", Tool: "shell", Effect: "execute", Args: []byte(`{"command":"ls","n":[1,{"a/b":true}]}`)}
}

// hostile are modules that load and then misbehave, unless they fail in the warm-up, which is forgiven.
func hostile() map[string]struct {
	wasm   []byte
	limits Limits
	want   Class
	// least is fuel that has to be spent, so that a module cannot fail for a reason other than its own
	least int64
} {
	type c = struct {
		wasm   []byte
		limits Limits
		want   Class
		least  int64
	}
	all := map[string]c{}
	hook := func(locals string, body ...[]byte) []byte { return w.Policy(1).Hook("flynn_route", locals, body...) }

	all["spin"] = c{wasm: hook("", w.Loop(w.Br(0)), w.I64(0)), want: ClassFuel, least: DefaultFuel}
	all["spin past the wall"] = c{wasm: hook("", w.Loop(w.Br(0)), w.I64(0)), limits: Limits{Fuel: maxFuel, Wall: 20 * time.Millisecond}, want: ClassDeadline, least: sliceFuel}
	all["empty loops in loops"] = c{wasm: hook("", w.Loop(w.Loop(w.Loop(w.Br(2)))), w.I64(0)), want: ClassFuel, least: DefaultFuel}

	tree := w.Policy(1)
	last := tree.Func("", "", w.Op(0x01))
	for range 40 { // 2^40 calls and no loop
		last = tree.Func("", "", w.Call(last), w.Call(last))
	}
	all["call tree without a loop"] = c{wasm: tree.Hook("flynn_route", "", w.Call(last), w.I64(0)), want: ClassFuel, least: DefaultFuel}

	deep := w.Policy(1)
	self := deep.Next()
	deep.Func("", "", w.Call(self))
	all["recursion"] = c{wasm: deep.Hook("flynn_route", "", w.Call(self), w.I64(0)), want: ClassDepth}

	fat := w.Policy(1)
	self = fat.Next()
	fat.Func("", strings.Repeat("l", 4000), w.Call(self))
	all["recursion with large frames"] = c{wasm: fat.Hook("flynn_route", "", w.Call(self), w.I64(0)), want: ClassDepth}

	table := w.Policy(1)
	table.Type(">")
	self = table.Next()
	table.Func("", "", w.I32(0), w.Op(0x11, byte(table.Type(">")), 0))
	table.Table(self)
	all["recursion through a table"] = c{wasm: table.Hook("flynn_route", "", w.Call(self), w.I64(0)), want: ClassDepth}

	all["memory growth"] = c{wasm: hook("", w.Loop(w.I32(16), w.Op(0x40, 0), w.I32(0), w.Op(0x4e), w.BrIf(0)), w.Op(0x00)), want: ClassMemory, limits: Limits{Fuel: 50_000_000}}
	all["memory growth is not free"] = c{wasm: hook("", w.Loop(w.I32(1), w.Op(0x40, 0), w.Op(0x1a), w.Br(0)), w.I64(0)), want: ClassFuel, least: DefaultFuel}
	all["memory fill"] = c{wasm: hook("", w.Loop(w.I32(0), w.I32(1), w.I32(65536), w.Op(0xfc, 11, 0), w.Br(0)), w.I64(0)), want: ClassFuel, least: DefaultFuel}
	all["huge branch table"] = c{wasm: hook("", w.Loop(w.Block(w.LocalGet(0), w.Op(0x0e), w.Unsigned(10_000), w.Repeat(10_000, w.Op(1)), w.Op(1))), w.I64(0)), want: ClassFuel, least: DefaultFuel}
	all["trap"] = c{wasm: hook("", w.Op(0x00)), want: ClassTrap}
	all["out of bounds"] = c{wasm: hook("", w.I32(-8), w.Load(0x29, 0)), want: ClassTrap}
	all["division by zero"] = c{wasm: hook("", w.I64(1), w.I64(0), w.Op(0x7f)), want: ClassTrap}
	all["unknown verdict"] = c{wasm: hook("", w.I64(77)), want: ClassAnswer}
	all["route without an agent"] = c{wasm: hook("", w.I64(1)), want: ClassAnswer}
	all["output larger than allowed"] = c{wasm: hook("", w.I64(1|9000<<32)), want: ClassAnswer}
	all["output larger than memory"] = c{wasm: hook("", w.I64(1|-1<<32)), want: ClassAnswer}
	all["output that is no frame"] = c{wasm: hook("", w.I64(1|64<<32)), want: ClassAnswer} // the input frame is still there

	for name, import1 := range map[string]struct {
		name, signature string
		args            [][]byte
		want            Class
	}{
		"get into nowhere":        {"get", "iiii>i", [][]byte{w.I32(1), w.I32(0), w.I32(-1), w.I32(100)}, ClassTrap},
		"data key from nowhere":   {"data", "iiii>i", [][]byte{w.I32(-4), w.I32(400), w.I32(0), w.I32(0)}, ClassTrap},
		"log of all memory twice": {"log", "iii>", [][]byte{w.I32(0), w.I32(0), w.I32(1 << 17)}, ClassTrap},
		"match of a huge pattern": {"match", "iiiii>i", [][]byte{w.I32(3), w.I32(0), w.I32(-1), w.I32(0), w.I32(1)}, ClassTrap},
	} {
		m := w.New()
		f := m.Import("flynn1", import1.name, import1.signature)
		m.Memory(1, -1)
		code := append(import1.args, w.Call(f))
		if strings.HasSuffix(import1.signature, "i") {
			code = append(code, w.Op(0x1a))
		}
		all[name] = c{wasm: m.Hook("flynn_route", "", append(code, w.I64(0))...), want: import1.want}
	}
	calls := w.New()
	trace := calls.Import("flynn1", "trace", "ii>")
	calls.Memory(1, -1)
	all["endless host calls"] = c{wasm: calls.Hook("flynn_route", "", w.Loop(w.I32(1), w.I32(1), w.Call(trace), w.Br(0)), w.I64(0)), want: ClassCalls}
	clock := w.New()
	yield := clock.Import(wasi, "sched_yield", ">i")
	clock.Memory(1, -1)
	all["endless yields"] = c{wasm: clock.Hook("flynn_route", "", w.Loop(w.Call(yield), w.Op(0x1a), w.Br(0)), w.I64(0)), want: ClassFuel, least: DefaultFuel}
	exit := w.New()
	quit := exit.Import(wasi, "proc_exit", "i>")
	exit.Memory(1, -1)
	all["exit"] = c{wasm: exit.Hook("flynn_route", "", w.I32(0), w.Call(quit), w.I64(0)), want: ClassTrap}
	return all
}

// unhurried is a wall limit that only a module without any other limit would meet, on a machine however busy.
const unhurried = 10 * time.Second

func TestHostileModuleIsCutAtItsLimit(t *testing.T) {
	for name, c := range hostile() {
		t.Run(name, func(t *testing.T) {
			c.limits.Wall = cmp.Or(c.limits.Wall, unhurried)
			e := engine(t, Source{Name: "bad", Path: write(t, c.wasm), Kinds: []string{KindRoute}, Limits: c.limits, OnErrorAgent: "errors"})
			if st := e.Status()[0]; st.State != StateRunning {
				t.Fatalf("not loaded: %s", st.Error)
			}
			s := e.Pin()
			defer s.Release()
			for round := range 3 { // the second and third on an instance that has failed before
				pauses := watchPauses()
				begin := time.Now()
				a, records := s.Route(t.Context(), routeFacts())
				took, longest := time.Since(begin), pauses()
				r := records[0]
				if !a.Decided || !a.Failed || a.Agent != "errors" {
					t.Fatalf("round %d: it decided %+v", round, a)
				}
				if !strings.HasPrefix(r.Error, string(c.want)+": ") {
					t.Fatalf("round %d: error %q, want class %s", round, r.Error, c.want)
				}
				if r.Fuel < c.least {
					t.Errorf("round %d: spent %d, want at least %d", round, r.Fuel, c.least)
				}
				wall := c.limits.withDefaults().Wall
				if c.want == ClassDeadline && took > wall+slack || c.want != ClassDeadline && took > slack {
					t.Errorf("round %d: cut after %v", round, took)
				}
				if longest > slack {
					t.Errorf("round %d: the garbage collector waited %v", round, longest)
				}
			}
		})
	}
}

// slack is what the test allows on a busy machine; the benchmark measures.
const slack = 5 * time.Second

// watchPauses stops the world every millisecond and returns how long that took at most.
func watchPauses() func() time.Duration {
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		var most time.Duration
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				longest <- most
				return
			case <-tick.C:
				var m runtime.MemStats
				begin := time.Now()
				runtime.ReadMemStats(&m)
				most = max(most, time.Since(begin))
			}
		}
	}()
	return func() time.Duration { close(stop); return <-longest }
}

func TestModuleThatCannotLoadFailsClosed(t *testing.T) {
	ok := w.I64(0)
	for name, c := range map[string]struct {
		wasm []byte
		want string
	}{
		"empty file": {nil, "not a WebAssembly module"},
		"text":       {[]byte("(module)"), "not a WebAssembly module"},
		"truncated":  {w.Policy(1).Hook("flynn_tool", "", ok)[:60], "malformed"},
		"no hook":    {w.Policy(1).Hook("flynn_other", "", ok), "does not export flynn_tool"},
		"wrong hook": {func() []byte {
			m := w.Policy(1)
			m.Export("flynn_tool", m.Func(">i", "", w.I32(0)))
			return m.Hook("x", "", ok)
		}(), "flynn_tool is () -> i32"},
		"unknown import": {func() []byte {
			m := w.New()
			m.Import("env", "system", "i>i")
			m.Memory(1, -1)
			return m.Hook("flynn_tool", "", ok)
		}(), "env.system"},
		"newer import": {func() []byte {
			m := w.New()
			m.Import("flynn1", "fetch", "i>i")
			m.Memory(1, -1)
			return m.Hook("flynn_tool", "", ok)
		}(), "flynn1.fetch"},
		"wrong import": {func() []byte {
			m := w.New()
			m.Import("flynn1", "get", "i>i")
			m.Memory(1, -1)
			return m.Hook("flynn_tool", "", ok)
		}(), "flynn1.get as (i32) -> i32"},
		"imports a meter": {func() []byte {
			m := w.New()
			m.Import("__flynn_host", "tick", ">")
			m.Memory(1, -1)
			return m.Hook("flynn_tool", "", ok)
		}(), "reserved prefix"},
		"exports a meter": {func() []byte {
			m := w.Policy(1)
			m.Export("__flynn_fuel", m.Func(">", "", w.Op()))
			return m.Hook("flynn_tool", "", ok)
		}(), "reserved prefix"},
		"start that spins": {func() []byte {
			m := w.Policy(1)
			m.Start(m.Func("", "", w.Loop(w.Br(0))))
			return m.Hook("flynn_tool", "", ok)
		}(), "fuel: in __flynn_start"},
		"start that traps": {func() []byte { m := w.Policy(1); m.Start(m.Func("", "", w.Op(0))); return m.Hook("flynn_tool", "", ok) }(), "trap: in __flynn_start"},
		"too much memory":  {w.Policy(600).Hook("flynn_tool", "", ok), "600 pages of memory"},
		"shared memory":    {func() []byte { m := w.Policy(1); m.RawMemory([]byte{1, 3, 1, 2}); return m.Hook("flynn_tool", "", ok) }(), "shared or 64-bit"},
		"two memories": {func() []byte {
			m := w.Policy(1)
			m.RawMemory([]byte{2, 0, 1, 0, 1})
			return m.Hook("flynn_tool", "", ok)
		}(), "several memories"},
		"vectors":    {w.Policy(1).Hook("flynn_tool", "", w.Op(0xfd, 0x0c), make([]byte, 16), w.Op(0x1a), ok), "not supported"},
		"atomics":    {w.Policy(1).Hook("flynn_tool", "", w.I32(0), w.Op(0xfe, 0x10, 2, 0, 0x1a), ok), "not supported"},
		"exceptions": {w.Policy(1).Hook("flynn_tool", "", w.Op(0x06, 0x40, 0x0b), ok), "not supported"},
		"tail call":  {w.Policy(1).Hook("flynn_tool", "", w.I32(0), w.Op(0x12, 0)), "not supported"},
		"pure with tables": {func() []byte {
			m := w.Policy(1)
			m.Table()
			return m.Hook("flynn_tool", "", w.I32(0), w.Op(0xd0, 0x70), w.Op(0x26, 0), ok)
		}(), "isolation = \"warm\""},
		"invalid code": {w.Policy(1).Hook("flynn_tool", "", w.I32(0)), "compile"},
		"bad buffer": {func() []byte {
			m := w.Policy(1)
			m.Export("flynn_abi", m.Func(">i", "", w.I32(1<<16)))
			m.Export("flynn_buffer", m.Func("i>i", "", w.I32(65532)))
			m.Export("flynn_tool", m.Func("i>l", "", ok))
			return m.Bytes()
		}(), "not aligned"},
		"newer version": {func() []byte {
			m := w.Policy(1)
			m.Export("flynn_abi", m.Func(">i", "", w.I32(2<<16)))
			m.Export("flynn_buffer", m.Func("i>i", "", w.I32(8)))
			m.Export("flynn_tool", m.Func("i>l", "", ok))
			return m.Bytes()
		}(), "speaks flynn 2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			e := engine(t, Source{Name: "bad", Path: write(t, c.wasm), Kinds: []string{KindTool}, Limits: Limits{Wall: unhurried}})
			st := e.Status()[0]
			if st.State != StateFailing || !strings.Contains(st.Error, c.want) {
				t.Fatalf("state %s, error %q, want %q", st.State, st.Error, c.want)
			}
			s := e.Pin()
			defer s.Release()
			got, records := s.Tool(t.Context(), toolFacts())
			if !got.Deny || len(got.Reasons) != 1 || records[0].Error == "" || records[0].Answer != "deny" {
				t.Errorf("it does not deny: %+v, %+v", got, records)
			}
		})
	}
}
