package policy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/sdk/need"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// buildC compiles a C policy. The linker is called by itself, because the compiler would run any wasm-opt that it finds.
func buildC(t testing.TB, source string) string {
	t.Helper()
	clang, err := exec.LookPath("clang")
	need.Part(t, "clang", err)
	linker, err := exec.LookPath("wasm-ld")
	need.Part(t, "clang", err)
	dir := t.TempDir()
	object, out := filepath.Join(dir, "policy.o"), filepath.Join(dir, "policy.wasm")
	run(t, nil, clang, "--target=wasm32", "-O2", "-ffreestanding", "-mbulk-memory", "-mmutable-globals", "-I../../sdk/policy/c", "-c", "-o", object, source)
	run(t, nil, linker, "--no-entry", "-z", "stack-size=16384", "--stack-first", "-o", out, object)
	return out
}

// buildGo compiles a Go policy.
func buildGo(t testing.TB, source string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "policy.wasm")
	run(t, []string{"GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=-buildvcs=false"}, "go", "build", "-buildmode=c-shared", "-trimpath", "-o", out, source)
	return out
}

func run(t testing.TB, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, said)
	}
}

type nativeRule struct{ channel, prefix, agent string }

var nativeRules = []nativeRule{
	{"telegram", "telegram:100", "agent-01"}, {"telegram", "telegram:101", "agent-02"}, {"telegram", "telegram:102", "agent-03"},
	{"telegram", "telegram:2", "agent-04"}, {"discord", "discord:3000", "agent-05"}, {"discord", "discord:3001", "agent-06"},
	{"discord", "discord:31", "agent-07"}, {"discord", "discord:4", "agent-08"}, {"slack", "slack:U00", "agent-09"},
	{"slack", "slack:U01", "agent-10"}, {"slack", "slack:U02", "agent-11"}, {"slack", "slack:W", "agent-12"},
	{"irc", "irc:al", "agent-13"}, {"irc", "irc:bo", "agent-14"}, {"irc", "irc:ca", "agent-15"}, {"irc", "irc:da", "agent-16"},
	{"whatsapp", "whatsapp:+49", "agent-17"}, {"whatsapp", "whatsapp:+33", "agent-18"}, {"web", "web:", "agent-19"},
	{"matrix", "matrix:@", "agent-20"},
}

func nativeRoute(channel, sender string) string {
	for i := range nativeRules {
		if r := &nativeRules[i]; r.channel == channel && strings.HasPrefix(sender, r.prefix) {
			return r.agent
		}
	}
	return ""
}

// ruleMessages are eight messages that match first, in the middle, last and not at all.
func ruleMessages() (list []RouteFacts, want []string) {
	var agents []string
	for i := range 20 {
		agents = append(agents, fmt.Sprintf("agent-%02d", i+1))
	}
	for _, m := range [][3]string{{"telegram", "10055", "agent-01"}, {"discord", "30019", "agent-06"}, {"slack", "U0299", "agent-11"}, {"irc", "alice", "agent-13"},
		{"irc", "zoe", ""}, {"web", "x", "agent-19"}, {"matrix", "@a:b", "agent-20"}, {"signal", "+1", ""}} {
		f := RouteFacts{Facts: someFacts(), Agents: agents}
		f.Message.Channel, f.Message.Sender.ID, f.Message.Text = m[0], m[1], strings.Repeat("word ", 40)
		list, want = append(list, f), append(want, m[2])
	}
	return list, want
}

func rulesC(t testing.TB) string  { return buildC(t, "testdata/bench/rules.c") }
func rulesGo(t testing.TB) string { return buildGo(t, "./testdata/bench/gorules") }

// rulesIn are the twenty rules as one language has them. Building them skips the test where its compiler is missing.
type rulesIn struct {
	language string
	build    func(testing.TB) string
}

func rulesInAllLanguages() []rulesIn {
	return []rulesIn{{"C", rulesC}, {"Go", rulesGo}, {"Rust", rulesRust}, {"AssemblyScript", rulesAssemblyScript}}
}

func TestRulesInAllLanguagesAgree(t *testing.T) {
	messages, want := ruleMessages()
	for _, c := range rulesInAllLanguages() {
		for _, isolation := range []string{IsolationPure, IsolationWarm} {
			t.Run(c.language+" "+isolation, func(t *testing.T) {
				e := engine(t, Source{Name: "rules", Path: c.build(t), Kinds: []string{KindRoute}, Isolation: isolation})
				s := e.Pin()
				defer s.Release()
				fuel := map[int]int64{}
				for n := range 800 {
					i := n % len(messages)
					a, records := s.Route(t.Context(), messages[i])
					if a.Agent != want[i] || a.Failed || nativeRoute(messages[i].Message.Channel, messages[i].Message.SenderKey()) != want[i] {
						t.Fatalf("message %d: %+v, want %q; %+v; status %+v", i, a, want[i], records, e.Status())
					}
					if n < len(messages) {
						fuel[i] = records[0].Fuel
					} else if fuel[i] != records[0].Fuel {
						t.Fatalf("message %d: fuel %d, and %d before", i, records[0].Fuel, fuel[i])
					}
				}
				t.Logf("fuel %v, status %+v", fuel, e.Status()[0])
			})
		}
	}
}

func BenchmarkDecisionNative(b *testing.B) {
	messages, _ := ruleMessages()
	var keys []string
	for _, f := range messages {
		keys = append(keys, f.Message.SenderKey())
	}
	n := 0
	for b.Loop() {
		nativeRoute(messages[n%len(messages)].Message.Channel, keys[n%len(messages)])
		n++
	}
}

// BenchmarkDecision is a whole decision: facts to frame, the module, the answer, the record.
func BenchmarkDecision(b *testing.B) {
	messages, _ := ruleMessages()
	for _, c := range rulesInAllLanguages() {
		for _, isolation := range []string{IsolationWarm, IsolationPure} {
			b.Run(c.language+"/"+isolation, func(b *testing.B) {
				s := engine(b, Source{Name: "rules", Path: c.build(b), Kinds: []string{KindRoute}, Isolation: isolation}).Pin()
				defer s.Release()
				b.Run("records kept", func(b *testing.B) { deciding(b, s.Route, messages) })
				b.Run("records reused", func(b *testing.B) { deciding(b, s.Asker().Route, messages) })
			})
		}
	}
}

func deciding(b *testing.B, route func(context.Context, RouteFacts) (RouteAnswer, []Record), messages []RouteFacts) {
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if a, _ := route(context.Background(), messages[n%len(messages)]); a.Failed {
			b.Fatal(a)
		}
		n++
	}
}

// BenchmarkDecisionLatency times each decision, for the percentiles.
func BenchmarkDecisionLatency(b *testing.B) {
	messages, _ := ruleMessages()
	for _, c := range rulesInAllLanguages() {
		for _, isolation := range []string{IsolationWarm, IsolationPure} {
			b.Run(c.language+"/"+isolation, func(b *testing.B) {
				s := engine(b, Source{Name: "rules", Path: c.build(b), Kinds: []string{KindRoute}, Isolation: isolation}).Pin()
				defer s.Release()
				asker := s.Asker()
				all, inside := make([]time.Duration, 0, 1<<20), make([]time.Duration, 0, 1<<20)
				n := 0
				for b.Loop() {
					begin := time.Now()
					_, records := asker.Route(context.Background(), messages[n%len(messages)])
					all, inside = append(all, time.Since(begin)), append(inside, records[0].Took)
					n++
				}
				slices.Sort(all)
				slices.Sort(inside)
				b.ReportMetric(float64(all[len(all)/2]), "p50-ns")
				b.ReportMetric(float64(all[len(all)*99/100]), "p99-ns")
				b.ReportMetric(float64(inside[len(inside)/2]), "module-p50-ns")
			})
		}
	}
}

// BenchmarkDecisionHostile is the time to the cut: a spin until its fuel is gone, and one until its time is.
func BenchmarkDecisionHostile(b *testing.B) {
	for name, limits := range map[string]Limits{"fuel": {}, "wall 50ms": {Fuel: maxFuel}} {
		b.Run(name, func(b *testing.B) {
			wasm := wasmtest.Policy(1).Hook("flynn_route", "", wasmtest.Loop(wasmtest.Br(0)), wasmtest.I64(0))
			s := engine(b, Source{Name: "spin", Path: write(b, wasm), Kinds: []string{KindRoute}, Limits: limits}).Pin()
			defer s.Release()
			var times []time.Duration
			pauses := watchPauses()
			for b.Loop() {
				begin := time.Now()
				if a, _ := s.Route(context.Background(), routeFacts()); !a.Failed {
					b.Fatal(a)
				}
				times = append(times, time.Since(begin))
			}
			longest := pauses()
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2])/1e6, "p50-ms")
			b.ReportMetric(float64(longest)/1e6, "gc-wait-ms")
		})
	}
}

// BenchmarkDecisionInstance is the module alone: a ready frame written, the metered call with its counters, the answer read.
func BenchmarkDecisionInstance(b *testing.B) {
	messages, _ := ruleMessages()
	for _, c := range rulesInAllLanguages() {
		b.Run(c.language, func(b *testing.B) {
			e := engine(b, Source{Name: "rules", Path: c.build(b), Kinds: []string{KindRoute}})
			i, err := e.slots[0].module.pool.get(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			defer e.slots[0].module.pool.put(i)
			queries := make([]query, len(messages))
			for k := range messages {
				queries[k] = routeQuery(&messages[k], "UTC", nil)
			}
			b.ReportAllocs()
			var r Record
			n := 0
			for b.Loop() {
				if v := i.decide(context.Background(), &queries[n%len(queries)], &r); v.err != nil {
					b.Fatal(v.err)
				}
				n++
			}
		})
	}
}

// BenchmarkDecisionMetering is the exported function with the same frame in memory, with the meter and without, in turns.
func BenchmarkDecisionMetering(b *testing.B) {
	messages, _ := ruleMessages()
	for _, c := range rulesInAllLanguages() {
		b.Run(c.language, func(b *testing.B) {
			path := c.build(b)
			e := engine(b, Source{Name: "rules", Path: path, Kinds: []string{KindRoute}, Limits: Limits{Fuel: maxFuel, Wall: maxWall}})
			i, err := e.slots[0].module.pool.get(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			defer e.slots[0].module.pool.put(i)
			plain, region := unmetered(b, e, path)
			var frames [][]byte
			for k := range messages {
				frames = append(frames, routeQuery(&messages[k], "UTC", nil).frame)
			}
			var metered, bare time.Duration
			rounds := 0
			const calls = 400
			for b.Loop() {
				bare += calling(b, plain.Memory(), region, plain.ExportedFunction("flynn_route"), context.Background(), frames, calls)
				i.begin(context.Background(), &query{}, maxFuel, maxWall, e.host.clock())
				metered += calling(b, i.memory, i.region, i.route, i, frames, calls)
				i.end()
				rounds++
			}
			each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(rounds*calls) }
			b.ReportMetric(each(bare), "plain-ns")
			b.ReportMetric(each(metered), "metered-ns")
			b.ReportMetric(each(metered)/each(bare), "ratio")
		})
	}
}

func calling(b *testing.B, memory api.Memory, region uint32, f api.Function, ctx context.Context, frames [][]byte, calls int) time.Duration {
	var stack [1]uint64
	begin := time.Now()
	for n := range calls {
		frame := frames[n%len(frames)]
		memory.Write(region, frame)
		stack[0] = uint64(len(frame))
		if err := f.CallWithStack(ctx, stack[:]); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(begin)
}

// unmetered instantiates the original module.
func unmetered(b *testing.B, e *Engine, path string) (api.Module, uint32) {
	wasm, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	compiled, err := e.host.runtime.CompileModule(ctx, wasm)
	if err != nil {
		b.Fatal(err)
	}
	m, err := e.host.runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		b.Fatal(err)
	}
	i := &instance{fuel: nowhere{}, limit: maxFuel, memory: m.Memory(), module: &Module{host: e.host, limits: Limits{HostCalls: 1 << 30}}}
	if f := m.ExportedFunction("_initialize"); f != nil {
		if _, err := f.Call(i); err != nil {
			b.Fatal(err)
		}
	}
	at, err := m.ExportedFunction("flynn_buffer").Call(i, maxOutput)
	if err != nil {
		b.Fatal(err)
	}
	return m, uint32(at[0])
}

// nowhere takes charges for a module without a meter.
type nowhere struct{ api.MutableGlobal }

func (nowhere) Get() uint64 { return 0 }
func (nowhere) Set(uint64)  {}

// BenchmarkLoad is from file to force, with the compiled code in the cache.
func BenchmarkLoad(b *testing.B) {
	for _, c := range rulesInAllLanguages() {
		b.Run(c.language, func(b *testing.B) {
			path, cache := c.build(b), b.TempDir()+"/cache"
			for b.Loop() {
				e, err := New(context.Background(), Config{Sources: []Source{{Name: "rules", Path: path, Kinds: []string{KindRoute}}}, CacheDir: cache})
				if err != nil {
					b.Fatal(err)
				}
				if err := e.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
