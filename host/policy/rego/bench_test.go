package rego_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/flynnhost/flynn/host/policy/meter"
	"github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/host/policy/rego"
)

// BenchmarkMetering is the same module of Rego with the meter and without: reading the input, deciding and writing the answer.
func BenchmarkMetering(b *testing.B) {
	wasm, err := rego.Compile(context.Background(), os.DirFS("../testdata/bench/rego"), []string{"route"})
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
