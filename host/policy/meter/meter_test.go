package meter_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/policy/meter"
	"github.com/flynnhost/flynn/host/policy/meter/verify"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"pgregory.net/rapid"
)

// world is a runtime with the three functions of the host, which count and never refuse fuel.
type world struct {
	runtime wazero.Runtime
	ticks   int
	slice   int64
	spent   int64
	most    int64
}

func newWorld(t testing.TB) *world { return newWorldOf(t, wazero.NewRuntimeConfig()) }

// newWorldOf is a world by the compiler or by the interpreter.
func newWorldOf(t testing.TB, config wazero.RuntimeConfig) *world {
	t.Helper()
	ctx := context.Background()
	v := &world{runtime: wazero.NewRuntimeWithConfig(ctx, config.WithCoreFeatures(features)), slice: 1000, most: 10_000_000}
	b := v.runtime.NewHostModuleBuilder(meter.ImportModule)
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, _ []uint64) {
		v.ticks++
		v.spent += v.slice - fuel(m)
		if v.spent > v.most {
			panic(errors.New("runs for ever"))
		}
		m.ExportedGlobal(meter.FuelGlobal).(api.MutableGlobal).Set(uint64(v.slice))
	}), nil, nil).Export(meter.TickImport)
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(context.Context, api.Module, []uint64) {
		panic(errors.New("too deep"))
	}), nil, nil).Export(meter.DeepImport)
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) {
		old, ok := m.Memory().Grow(uint32(stack[0]))
		if stack[0] = uint64(old); !ok {
			stack[0] = 1<<32 - 1
		}
	}), []api.ValueType{api.ValueTypeI32}, []api.ValueType{api.ValueTypeI32}).Export(meter.GrowImport)
	if _, err := b.Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.runtime.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return v
}

const features = api.CoreFeaturesV2 &^ api.CoreFeatureSIMD

func fuel(m api.Module) int64 { return int64(m.ExportedGlobal(meter.FuelGlobal).Get()) }

// outcome is all that can be seen of a call.
type outcome struct {
	result uint64
	trap   string
	memory [32]byte
}

func (v *world) run(t fataler, wasm []byte, metered bool, a, b int32) (outcome, int64) {
	ctx := context.Background()
	m, err := v.runtime.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatalf("metered %v: %v", metered, err)
	}
	defer m.Close(ctx)
	v.spent, v.ticks = 0, 0
	if metered {
		m.ExportedGlobal(meter.FuelGlobal).(api.MutableGlobal).Set(uint64(v.slice))
		m.ExportedGlobal(meter.DepthGlobal).(api.MutableGlobal).Set(1000)
	}
	var o outcome
	got, err := m.ExportedFunction("f").Call(ctx, api.EncodeI32(a), api.EncodeI32(b))
	if err != nil {
		o.trap, _, _ = strings.Cut(err.Error(), "\n")
	} else {
		o.result = got[0]
	}
	view, _ := m.Memory().Read(0, m.Memory().Size())
	o.memory = sha256.Sum256(view)
	if metered {
		if err == nil {
			if depth := m.ExportedGlobal(meter.DepthGlobal).Get(); depth != 1000 {
				t.Fatalf("a depth of %d is left of 1000", int64(depth))
			}
		}
		return o, v.spent + v.slice - fuel(m)
	}
	return o, 0
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func TestMeteredModuleDoesTheSame(t *testing.T) {
	v, interpreted := newWorld(t), newWorldOf(t, wazero.NewRuntimeConfigInterpreter())
	traps, loops := 0, 0
	rapid.Check(t, func(t *rapid.T) { // rapid's flag -rapid.checks asks for more
		g := &generator{choices: choices().Draw(t, "choices")}
		original := g.module()
		out, err := meter.Rewrite(original, meter.Options{MaxPages: 3})
		if err != nil {
			t.Fatalf("rewrite %x: %v", original, err)
		}
		if err := verify.Check(out.Wasm); err != nil {
			t.Fatalf("%v\n%x", err, out.Wasm)
		}
		a, b := rapid.Int32().Draw(t, "a"), rapid.Int32().Draw(t, "b")
		want, _ := v.run(t, original, false, a, b)
		got, spent := v.run(t, out.Wasm, true, a, b)
		if got != want {
			t.Fatalf("metered %+v, plain %+v\n%x", got, want, original)
		}
		if also, units := interpreted.run(t, out.Wasm, true, a, b); also != got || units != spent {
			t.Fatalf("interpreted %+v for %d, compiled %+v for %d\n%x", also, units, got, spent, original)
		}
		slice := v.slice
		v.slice = 17 // ticks must not change the sum
		_, again := v.run(t, out.Wasm, true, a, b)
		v.slice = slice
		if again != spent || spent <= 0 {
			t.Fatalf("fuel %d, then %d\n%x", spent, again, original)
		}
		if want.trap != "" {
			traps++
		}
		if v.ticks > 1 {
			loops++
		}
	})
	if traps == 0 || loops == 0 {
		t.Errorf("the generator made %d traps and %d long runs; it should make both", traps, loops)
	}
}

func TestMergedSegmentsAreTheSameMemory(t *testing.T) {
	v := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		m := w.New()
		m.Memory(1, 1)
		m.Export("f", m.Func("ii>i", "", w.I32(0)))
		n := rapid.IntRange(1, 30).Draw(t, "n")
		for range n {
			at := rapid.IntRange(0, 60_000).Draw(t, "at")
			m.Data(int32(at), rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "data"))
		}
		out, err := meter.Rewrite(m.Bytes(), meter.Options{MaxPages: 1})
		if err != nil {
			t.Fatal(err)
		}
		want, _ := v.run(t, m.Bytes(), false, 0, 0)
		got, _ := v.run(t, out.Wasm, true, 0, 0)
		if got != want {
			t.Fatalf("merged %+v, plain %+v", got, want)
		}
	})
}

func TestManySegmentsAreMerged(t *testing.T) {
	m := w.New()
	m.Memory(16, -1)
	for i := range 20_000 {
		m.Data(int32(1024+i*40), []byte("some bytes"))
	}
	out, err := meter.Rewrite(m.Bytes(), meter.Options{MaxPages: 16})
	if err != nil {
		t.Fatal(err)
	}
	if out.Info.Segments != [2]int{20_000, 1} {
		t.Errorf("segments %v, want 20000 in 1", out.Info.Segments)
	}
}

// TestVerifierFindsEverySabotage takes each piece of the meter out of a module, one at a time.
func TestVerifierFindsEverySabotage(t *testing.T) {
	m := w.New()
	m.Import("env", "nothing", ">")
	m.Memory(1, -1)
	m.Global(0)
	leaf := m.Func("i>i", "", w.LocalGet(0), w.Loop(w.LocalGet(0), w.BrIf(0)), w.Loop(w.LocalGet(0), w.Op(0x45), w.BrIf(0)), w.LocalGet(0), w.If(w.Call(0), w.Call(0)), w.I32(0), w.I32(0), w.I32(9), w.Op(0xfc, 11, 0))
	m.Table(leaf)
	m.Export("f", m.Func("ii>i", "", w.LocalGet(0), w.Call(leaf), w.If(w.I32(1), w.Op(0x0f)), w.I32(0), w.I32(0), w.Op(0x11), w.Unsigned(m.Type("i>i")), w.Op(0)))
	out, err := meter.Rewrite(m.Bytes(), meter.Options{MaxPages: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := verify.Check(out.Wasm); err != nil {
		t.Fatal(err)
	}
	const fuelGlobal, depthGlobal, tick, deep = 1, 2, 1, 2
	nops := func(n int) []byte { return bytes.Repeat([]byte{0x01}, n) }
	for name, s := range map[string]struct{ find, put []byte }{
		"charge added back":    {[]byte{0x7d, 0x24, fuelGlobal}, []byte{0x7c, 0x24, fuelGlobal}},
		"charge not kept":      {[]byte{0x7d, 0x24, fuelGlobal}, []byte{0x7d, 0x24, 0}},
		"fuel check gone":      {w.Join([]byte{0x23, fuelGlobal}, w.I64(0), []byte{0x53, 0x04, 0x40, 0x10, tick, 0x0b}), nops(10)},
		"fuel check the other": {[]byte{0x53, 0x04, 0x40, 0x10, tick}, []byte{0x55, 0x04, 0x40, 0x10, tick}},
		"fuel check calls off": {[]byte{0x04, 0x40, 0x10, tick, 0x0b}, []byte{0x04, 0x40, 0x10, 0, 0x0b}},
		"depth check gone":     {w.Join([]byte{0x23, depthGlobal}, w.I64(0), []byte{0x53, 0x04, 0x40, 0x10, deep, 0x0b}), nops(10)},
		"depth given twice":    {w.Join([]byte{0x23, depthGlobal}, w.I64(1), []byte{0x7c, 0x24, depthGlobal}), w.Join([]byte{0x23, depthGlobal}, w.I64(2), []byte{0x7c, 0x24, depthGlobal})},
		"depth not taken":      {w.Join([]byte{0x23, depthGlobal}, w.I64(1), []byte{0x7d, 0x24, depthGlobal}), nops(7)},
		"range not charged":    {[]byte{0xad, 0x42, 3, 0x88}, []byte{0xad, 0x42, 9, 0x88}},
		"range of another":     {[]byte{0x20, 1, 0xfc, 11, 0}, []byte{0x20, 0, 0xfc, 11, 0}},
		"return past the exit": {[]byte{0x41, 1, 0x0c, 1, 0x0b}, []byte{0x41, 1, 0x0f, 1, 0x0b}},
		"branch to its own if": {[]byte{0x45, 0x04, 0x40, 0x0c, 1, 0x0b}, []byte{0x45, 0x04, 0x40, 0x0c, 0, 0x0b}},
		"call for the branch":  {[]byte{0x45, 0x04, 0x40, 0x0c, 1, 0x0b}, []byte{0x45, 0x04, 0x40, 0x10, 0, 0x0b}},
		"branch out of reach":  {[]byte{0x45, 0x04, 0x40, 0x0c, 1, 0x0b}, []byte{0x45, 0x04, 0x40, 0x0c, 9, 0x0b}},
		"counter set":          {[]byte{0x41, 1, 0x0c, 1, 0x0b}, []byte{0x41, 1, 0x24, fuelGlobal, 0x0b}},
		"tick called":          {[]byte{0x10, 0, 0x10, 0}, []byte{0x10, tick, 0x10, 0}},
		"grow in the table":    {[]byte{0x41, 0, 0x0b, 1, 4}, []byte{0x41, 0, 0x0b, 1, 3}},
		"an unknown import":    {[]byte("deep"), []byte("keep")},
	} {
		t.Run(name, func(t *testing.T) {
			if len(s.find) != len(s.put) {
				t.Fatalf("%d bytes for %d", len(s.put), len(s.find))
			}
			found := 0
			for at := 0; ; at++ {
				next := bytes.Index(out.Wasm[at:], s.find)
				if next < 0 {
					break
				}
				at += next
				found++
				bad := bytes.Clone(out.Wasm)
				copy(bad[at:], s.put)
				if err := verify.Check(bad); err == nil {
					t.Errorf("place %d at byte %d is not found", found, at)
				}
			}
			if found == 0 {
				t.Fatal("there is nothing to sabotage; the test is out of date")
			}
		})
	}
}

func TestNamesMove(t *testing.T) {
	v := newWorld(t)
	m := w.New()
	m.Memory(1, -1)
	inner := m.Func("ii>i", "", w.Op(0x00))
	m.Export("f", m.Func("ii>i", "", w.LocalGet(0), w.LocalGet(1), w.Call(inner)))
	m.Name(inner, "the_inner_one")
	m.Name(inner+1, "the_outer_one")
	out, err := meter.Rewrite(m.Bytes(), meter.Options{MaxPages: 1})
	if err != nil {
		t.Fatal(err)
	}
	instance, err := v.runtime.InstantiateWithConfig(t.Context(), out.Wasm, wazero.NewModuleConfig())
	if err != nil {
		t.Fatal(err)
	}
	instance.ExportedGlobal(meter.DepthGlobal).(api.MutableGlobal).Set(10)
	_, err = instance.ExportedFunction("f").Call(t.Context(), 0, 0)
	if err == nil || !strings.Contains(err.Error(), ".the_inner_one(") || !strings.Contains(err.Error(), ".the_outer_one(") {
		t.Errorf("the trace lacks the names: %v", err)
	}
}

func TestRewriteRefuses(t *testing.T) {
	body := func(code ...[]byte) []byte { m := w.New(); m.Memory(1, -1); m.Func(">", "", code...); return m.Bytes() }
	for name, c := range map[string]struct {
		wasm []byte
		want error
	}{
		"a label outside":         {body(w.Br(1)), meter.ErrMalformed},
		"the counters by number":  {body(w.GlobalGet(0), w.Op(0x1a)), meter.ErrMalformed},
		"a function by number":    {body(w.Call(1)), meter.ErrMalformed},
		"a local by number":       {body(w.LocalGet(0), w.Op(0x1a)), meter.ErrMalformed},
		"an added type by number": {body(w.Op(0x02, 0x01, 0x0b)), meter.ErrMalformed},
		"code behind the end":     {body(w.Op(0x0b, 0x01)), meter.ErrMalformed},
		"an open block":           {body(w.Op(0x02, 0x40)), meter.ErrMalformed},
		"an else alone":           {body(w.Op(0x05)), meter.ErrMalformed},
		"many locals":             {func() []byte { m := w.New(); m.Func(">", strings.Repeat("l", meter.MaxLocals+1)); return m.Bytes() }(), meter.ErrLimit},
		"many blocks":             {body(w.Repeat(meter.MaxLabels+1, w.Block())), meter.ErrLimit},
		"many loops":              {body(w.Repeat(meter.MaxLoops+1, w.Loop())), meter.ErrLimit},
		"locals times labels": {func() []byte {
			m := w.New()
			m.Func(">", strings.Repeat("l", 4000), w.Repeat(100, w.Block()))
			return m.Bytes()
		}(), meter.ErrLimit},
		"many branches":         {body(w.Block(w.Repeat(meter.MaxBlocks, w.I32(0), w.BrIf(0)))), meter.ErrLimit},
		"a huge branch table":   {body(w.Block(w.I32(0), w.Op(0x0e), w.Unsigned(meter.MaxBlocks), w.Repeat(meter.MaxBlocks+1, w.Op(0)))), meter.ErrLimit},
		"operands times blocks": {body(w.Repeat(300, w.I32(0)), w.Repeat(1000, w.Block()), w.Repeat(300, w.Op(0x1a))), meter.ErrLimit},
		"blocks times code":     {body(w.Repeat(4000, w.Block()), w.Repeat(120_000, w.I32(0), w.Op(0x1a))), meter.ErrLimit},
		"calls with many values": {func() []byte {
			m := w.New()
			wide := strings.Repeat("i", 64)
			f := m.Func(wide+">"+wide, "", w.Repeat(64, w.LocalGet(0)))
			m.Func(">", "", w.Repeat(64, w.I32(0)), w.Repeat(1000, w.Call(f)), w.Repeat(64, w.Op(0x1a)))
			return m.Bytes()
		}(), meter.ErrLimit},
		"many calls with many values": {func() []byte {
			m := w.New()
			f := m.Func(">"+strings.Repeat("i", 64), "", w.Repeat(64, w.I32(0)))
			for range 80 {
				m.Func(">", "", w.Repeat(900, w.Call(f), w.Repeat(64, w.Op(0x1a))))
			}
			return m.Bytes()
		}(), meter.ErrLimit},
		"many ranges": {func() []byte {
			m := w.New()
			m.Memory(1, -1)
			m.Func(">", "", w.Repeat(3000, w.I32(0), w.I32(0), w.I32(0), w.Op(0xfc, 11, 0)))
			return m.Bytes()
		}(), meter.ErrLimit},
		"many indirect calls": {func() []byte {
			m := w.New()
			m.Table(m.Func(">", ""))
			m.Func(">", "", w.Repeat(9000, w.I32(0), w.Op(0x11, 0, 0)))
			return m.Bytes()
		}(), meter.ErrLimit},
		"many floats": {body(w.Op(0x43, 0, 0, 0, 0), w.Repeat(80_000, w.Op(0x91)), w.Op(0x1a)), meter.ErrLimit},
		"a long name": {func() []byte {
			m := w.New()
			m.Export(strings.Repeat("x", meter.MaxName+1), m.Func(">", ""))
			return m.Bytes()
		}(), meter.ErrLimit},
		"a name for a terminal":  {func() []byte { m := w.New(); m.Export("a\x1b[2Jb", m.Func(">", "")); return m.Bytes() }(), meter.ErrUnsupported},
		"a huge function":        {body(w.Repeat(meter.MaxBody, w.Op(0x01))), meter.ErrLimit},
		"a huge module":          {make([]byte, meter.MaxModule+1), meter.ErrLimit},
		"a vector local":         {func() []byte { m := w.New(); m.Func(">", "v"); return m.Bytes() }(), meter.ErrUnsupported},
		"a memory too large":     {func() []byte { m := w.New(); m.Memory(9, -1); return m.Bytes() }(), meter.ErrLimit},
		"a count beyond the end": {append([]byte("\x00asm\x01\x00\x00\x00"), 1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f), meter.ErrMalformed},
		"sections out of order":  {append([]byte("\x00asm\x01\x00\x00\x00"), 3, 1, 0, 1, 1, 0), meter.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := meter.Rewrite(c.wasm, meter.Options{MaxPages: 8}); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// FuzzRewrite feeds anything. A module that Rewrite accepts has to pass the verifier, and the compiler has to accept it rewritten if it accepted the original.
func FuzzRewrite(f *testing.F) {
	f.Add([]byte{})
	f.Add(w.Policy(1).Hook("flynn_route", "il", w.Loop(w.Br(0)), w.I64(0)))
	f.Add(w.Policy(1).Hook("flynn_tool", "", w.LocalGet(0), w.If(w.I32(1), w.Op(0x40, 0, 0x1a)), w.I32(0), w.I32(0), w.I32(9), w.Op(0xfc, 10, 0, 0), w.I64(0)))
	m := w.New()
	m.Import("flynn1", "trace", "ii>")
	m.Memory(1, 5)
	m.Global(1)
	g := m.Func("ii>i", "ild", w.LocalGet(0), w.Op(0x0e, 1, 0, 0))
	m.Table(g)
	m.Start(m.Func(">", "", w.I32(1), w.I32(1), w.I32(0), w.Op(0x11, 1, 0), w.Op(0x1a)))
	m.Data(3, []byte("abc"))
	m.Data(9, []byte("def"))
	m.Name(g, "g")
	f.Add(m.Bytes())
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(features))
	f.Cleanup(func() { _ = runtime.Close(ctx) })
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if len(wasm) > 1<<16 {
			return
		}
		out, err := meter.Rewrite(wasm, meter.Options{MaxPages: 16})
		if err != nil {
			return
		}
		if err := verify.Check(out.Wasm); err != nil {
			t.Fatalf("%v\n%x", err, out.Wasm)
		}
		before, err := runtime.CompileModule(ctx, wasm)
		if err != nil {
			return
		}
		defer before.Close(ctx)
		after, err := runtime.CompileModule(ctx, out.Wasm)
		if err != nil {
			t.Fatal(fmt.Errorf("valid before and not after: %w\n%x\n%x", err, wasm, out.Wasm))
		}
		defer after.Close(ctx)
	})
}

// TestManyTypesAreFoundFast: the types that the rewriter adds are as many as the functions, if a module wants.
func TestManyTypesAreFoundFast(t *testing.T) {
	m := w.New()
	leaf := m.Func(">", "")
	const functions, results = 4096, 12
	for k := range functions {
		signature, body := ">", w.Call(leaf)
		for bit := range results {
			if k>>bit&1 == 0 {
				signature, body = signature+"i", w.Join(body, w.I32(0))
			} else {
				signature, body = signature+"l", w.Join(body, w.I64(0))
			}
		}
		m.Func(signature, "", body)
	}
	begin := time.Now()
	if _, err := meter.Rewrite(m.Bytes(), meter.Options{MaxPages: 1}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 10*time.Second { // it was half a minute
		t.Errorf("it took %v", took)
	}
}
