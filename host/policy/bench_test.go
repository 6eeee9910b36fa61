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
	need.Long(t)
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

func rulesC(t testing.TB) string  { return buildC(t, "author/testdata/rules-c/policy.c") }
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
				e := engine(t, Source{Name: "rules", Path: c.build(t), Kinds: []string{KindRoute}, Isolation: isolation, Limits: Limits{Wall: unhurried}})
				s := e.Pin()
				defer s.Release()
				fuel := map[int]int64{}
				for n := range 800 {
					i := n % len(messages)
					a, records := s.Route(t.Context(), messages[i])
					if a.Agent != want[i] || a.Failed || nativeRoute(messages[i].Message.Channel, string(messages[i].Message.SenderKey())) != want[i] {
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
