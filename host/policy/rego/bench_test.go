package rego_test

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

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/meter"
	"github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/host/policy/opa"
	"github.com/flynnhost/flynn/host/policy/rego"
	"github.com/flynnhost/flynn/sdk/need"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

var rulesDir = filepath.Join("..", "testdata", "bench")

// rulesC is the module of the twenty rules in C.
func rulesC(b *testing.B) string {
	clang, err := exec.LookPath("clang")
	need.Part(b, "clang", err)
	out := filepath.Join(b.TempDir(), "policy")
	for _, args := range [][]string{
		{clang, "--target=wasm32", "-O2", "-ffreestanding", "-mbulk-memory", "-mmutable-globals", "-c", "-o", out + ".o", filepath.Join(rulesDir, "rules.c")},
		{"wasm-ld", "--no-entry", "-z", "stack-size=16384", "--stack-first", "-o", out + ".wasm", out + ".o"},
	} {
		if said, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, said)
		}
	}
	return out + ".wasm"
}

// The twenty rules in Rego, as one chain and as a table.
const (
	chain = "rego"
	table = "regotable"
)

// rulesRego is the module of the twenty rules in Rego.
func rulesRego(b *testing.B, style string) string {
	wasm, err := rego.Compile(context.Background(), os.DirFS(filepath.Join(rulesDir, style)), []string{"route"})
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "policy.wasm")
	if err := os.WriteFile(path, wasm, 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// ruleMessages are eight messages that match first, in the middle, last and not at all.
func ruleMessages() (list []policy.RouteFacts, want []string) {
	var agents []string
	for i := range 20 {
		agents = append(agents, fmt.Sprintf("agent-%02d", i+1))
	}
	for _, m := range [][3]string{{"telegram", "10055", "agent-01"}, {"discord", "30019", "agent-06"}, {"slack", "U0299", "agent-11"}, {"irc", "alice", "agent-13"},
		{"irc", "zoe", ""}, {"web", "x", "agent-19"}, {"matrix", "@a:b", "agent-20"}, {"signal", "+1", ""}} {
		f := policy.RouteFacts{Facts: facts(), Candidate: "helper", Agents: agents}
		f.Message.Channel, f.Message.Sender.ID, f.Message.Text = m[0], m[1], strings.Repeat("word ", 40)
		list, want = append(list, f), append(want, m[2])
	}
	return list, want
}

// contender makes the n-th decision and names the agent.
type contender struct {
	name   string
	decide func(n int) string
}

func ours(b *testing.B, name, path, isolation string, messages []policy.RouteFacts) contender {
	engine, err := policy.New(context.Background(), policy.Config{Sources: []policy.Source{
		{Name: "rules", Path: path, Kinds: []string{"route"}, Isolation: isolation, Limits: policy.Limits{Wall: 10 * time.Second}},
	}})
	if err != nil {
		b.Fatal(err)
	}
	set := engine.Pin()
	b.Cleanup(func() {
		set.Release()
		_ = engine.Close()
	})
	asker := set.Asker()
	return contender{name, func(n int) string {
		a, records := asker.Route(context.Background(), messages[n%len(messages)])
		if a.Failed {
			b.Fatal(records[0].Error)
		}
		return a.Agent
	}}
}

// inProcess is OPA as a library: a prepared query. It is asked with all facts, ready-made as Go values, as a host would have to that does not know
// what the rules read; or with no more than they read, ready-made as OPA's own values.
func inProcess(b *testing.B, style string, least bool, messages []policy.RouteFacts) contender {
	source, err := os.ReadFile(filepath.Join(rulesDir, style, "policy.rego"))
	if err != nil {
		b.Fatal(err)
	}
	query, err := oparego.New(oparego.Query("data.flynn.route"), oparego.Module("policy.rego", string(source))).PrepareForEval(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	name := "OPA"
	if style == table {
		name = "OPA table"
	}
	if least {
		name += " least"
	}
	var inputs []oparego.EvalOption
	for _, f := range messages {
		few := map[string]any{"channel": f.Message.Channel, "sender": f.Message.SenderKey()}
		if least {
			inputs = append(inputs, oparego.EvalParsedInput(ast.MustInterfaceToValue(few)))
		} else {
			inputs = append(inputs, oparego.EvalInput(allFacts(f)))
		}
	}
	return contender{name, func(n int) string {
		set, err := query.Eval(context.Background(), inputs[n%len(inputs)])
		if err != nil {
			b.Fatal(err)
		}
		if len(set) == 0 {
			return ""
		}
		return set[0].Expressions[0].Value.(map[string]any)["agent"].(string)
	}}
}

// allFacts is the document input as Go values.
func allFacts(f policy.RouteFacts) map[string]any {
	all := map[string]any{
		"channel": f.Message.Channel, "sender": f.Message.SenderKey(), "sender_name": f.Message.Sender.Name, "text": f.Message.Text, "role": f.Role,
		"labels": f.Labels, "agents": f.Agents, "unix_time": f.Now.Unix(), "seed": f.Seed, "zone": "UTC", "door": f.Door, "candidate": f.Candidate,
	}
	for _, fact := range opa.RouteFacts() {
		if _, ok := all[fact.Name]; !ok {
			all[fact.Name] = map[int]any{abi.TypeString: "", abi.TypeInt: 1, abi.TypeBool: true, abi.TypeList: []string{}}[fact.Type]
		}
	}
	return all
}

// BenchmarkAgainstOPA takes all contenders in turns, so that they share the machine's weather. Ours decide with all facts of a message, fuel,
// guards and records; OPA in process is handed ready-made facts, and has no limits. Each figure is its
// fastest round, so that a busy machine counts for nobody; that leaves out most of the garbage collection, which OPA has and ours does not.
func BenchmarkAgainstOPA(b *testing.B) {
	messages, want := ruleMessages()
	inC, inRego := rulesC(b), rulesRego(b, chain)
	contenders := []contender{
		ours(b, "C", inC, policy.IsolationWarm, messages),
		ours(b, "C pristine", inC, policy.IsolationPure, messages),
		ours(b, "Rego", inRego, policy.IsolationWarm, messages),
		ours(b, "Rego pristine", inRego, policy.IsolationPure, messages),
		ours(b, "Rego table", rulesRego(b, table), policy.IsolationWarm, messages),
		inProcess(b, chain, false, messages),
		inProcess(b, chain, true, messages),
		inProcess(b, table, false, messages),
		inProcess(b, table, true, messages),
	}
	took := slices.Repeat([]time.Duration{time.Hour}, len(contenders))
	for _, c := range contenders {
		for n := range messages {
			if got := c.decide(n); got != want[n] {
				b.Fatalf("%s: message %d: %q, want %q", c.name, n, got, want[n])
			}
		}
	}
	const calls = 64
	for b.Loop() {
		for k, c := range contenders {
			begin := time.Now()
			for n := range calls {
				c.decide(n)
			}
			took[k] = min(took[k], time.Since(begin))
		}
	}
	each := func(k int) float64 { return float64(took[k].Nanoseconds()) / calls }
	for k, c := range contenders {
		b.ReportMetric(each(k), strings.NewReplacer(" ", "-", ",", "").Replace(c.name)+"-ns")
	}
	b.ReportMetric(each(5)/each(0), "OPA/C")
	b.ReportMetric(each(6)/each(0), "OPA-least/C")
	b.ReportMetric(each(7)/each(0), "OPA-table/C")
	b.ReportMetric(each(5)/each(2), "OPA/Rego")
	b.ReportMetric(each(7)/each(4), "OPA-table/Rego-table")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkMetering is the same module of Rego with the meter and without: reading the input, deciding and writing the answer.
func BenchmarkMetering(b *testing.B) {
	wasm, err := os.ReadFile(rulesRego(b, chain))
	if err != nil {
		b.Fatal(err)
	}
	metered, err := meter.Rewrite(wasm, meter.Options{MaxPages: 512})
	if err != nil {
		b.Fatal(err)
	}
	plain, limited := newBare(b, wasm), newBare(b, metered.Wasm)
	fuel := limited.wasm.ExportedGlobal(meter.FuelGlobal).(api.MutableGlobal)
	limited.wasm.ExportedGlobal(meter.DepthGlobal).(api.MutableGlobal).Set(1000)
	var input []byte
	input = append(input, `{"channel":"irc","sender":"irc:zoe","text":"`+strings.Repeat("word ", 40)+`"}`...)
	const calls = 64
	without, with := time.Hour, time.Hour
	for b.Loop() {
		begin := time.Now()
		for range calls {
			plain.decide(b, input)
		}
		middle := time.Now()
		for range calls {
			fuel.Set(1 << 40)
			limited.decide(b, input)
		}
		without, with = min(without, middle.Sub(begin)), min(with, time.Since(middle))
	}
	b.ReportMetric(float64(without.Nanoseconds())/calls, "plain-ns")
	b.ReportMetric(float64(with.Nanoseconds())/calls, "metered-ns")
	b.ReportMetric(float64(with)/float64(without), "ratio")
	b.ReportMetric(0, "ns/op")
}

// bare is a module of OPA's without an engine around it.
type bare struct {
	wasm                                                           api.Module
	heap, context                                                  uint64
	setHeap, malloc, parse, setInput, setEntry, eval, result, dump api.Function
	stack                                                          [2]uint64
}

func newBare(b *testing.B, wasm []byte) *bare {
	ctx := context.Background()
	rt := wazero.NewRuntime(ctx)
	b.Cleanup(func() { _ = rt.Close(ctx) })
	nothing := api.GoModuleFunc(func(context.Context, api.Module, []uint64) {})
	host := rt.NewHostModuleBuilder("host")
	// The memory that OPA's modules import, with the functions beside it.
	env := wasmtest.New()
	for name, signature := range map[string]string{"opa_abort": "i>", "opa_println": "i>", "opa_builtin0": "ii>i", "opa_builtin1": "iii>i",
		"opa_builtin2": "iiii>i", "opa_builtin3": "iiiii>i", "opa_builtin4": "iiiiii>i"} {
		params, results, _ := strings.Cut(signature, ">")
		host.NewFunctionBuilder().WithGoModuleFunction(nothing, i32s(params), i32s(results)).Export(name)
		env.Export(name, env.Import("host", name, signature))
	}
	env.Memory(2, -1)
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	_, err := host.Instantiate(ctx)
	must(err)
	_, err = rt.InstantiateWithConfig(ctx, env.Bytes(), wazero.NewModuleConfig().WithName("env"))
	must(err)
	grow := api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) {
		old, _ := m.Memory().Grow(uint32(stack[0]))
		stack[0] = uint64(old)
	})
	_, err = rt.NewHostModuleBuilder(meter.ImportModule).
		NewFunctionBuilder().WithGoModuleFunction(nothing, nil, nil).Export(meter.TickImport).
		NewFunctionBuilder().WithGoModuleFunction(nothing, nil, nil).Export(meter.DeepImport).
		NewFunctionBuilder().WithGoModuleFunction(grow, i32s("i"), i32s("i")).Export(meter.GrowImport).Instantiate(ctx)
	must(err)
	m, err := rt.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithName("").WithStartFunctions(meter.StartExport))
	must(err)
	f := m.ExportedFunction
	x := &bare{wasm: m, setHeap: f("opa_heap_ptr_set"), malloc: f("opa_malloc"), parse: f("opa_json_parse"), setInput: f("opa_eval_ctx_set_input"),
		setEntry: f("opa_eval_ctx_set_entrypoint"), eval: f("eval"), result: f("opa_eval_ctx_get_result"), dump: f("opa_json_dump")}
	x.context = x.call(b, f("opa_eval_ctx_new"))
	x.heap = x.call(b, f("opa_heap_ptr_get"))
	return x
}

func i32s(letters string) (types []api.ValueType) {
	for range letters {
		types = append(types, api.ValueTypeI32)
	}
	return types
}

func (x *bare) call(b *testing.B, f api.Function, params ...uint64) uint64 {
	copy(x.stack[:], params)
	if err := f.CallWithStack(context.Background(), x.stack[:]); err != nil {
		b.Fatal(err)
	}
	return uint64(uint32(x.stack[0]))
}

func (x *bare) decide(b *testing.B, input []byte) {
	x.call(b, x.setHeap, x.heap)
	at := x.call(b, x.malloc, uint64(len(input)))
	x.wasm.Memory().Write(uint32(at), input)
	x.call(b, x.setInput, x.context, x.call(b, x.parse, at, uint64(len(input))))
	x.call(b, x.setEntry, x.context, 0)
	x.call(b, x.eval, x.context)
	x.call(b, x.dump, x.call(b, x.result, x.context))
}
