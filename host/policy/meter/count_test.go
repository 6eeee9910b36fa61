package meter_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	"github.com/flynnhost/flynn/host/policy/meter"
	"github.com/flynnhost/flynn/host/policy/meter/verify"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/tetratelabs/wazero"
	"pgregory.net/rapid"
)

// counting instantiates the counters of a module in the world, under the name that it imports, and returns how to read them.
func (v *world) counting(t fataler, blocks int) (counts func() []uint64, done func()) {
	t.Helper()
	ctx := context.Background()
	m, err := v.runtime.InstantiateWithConfig(ctx, meter.Counter(blocks), wazero.NewModuleConfig().WithName(meter.CountModule))
	if err != nil {
		t.Fatalf("the counters: %v", err)
	}
	return func() []uint64 {
		list := make([]uint64, blocks)
		view, _ := m.ExportedMemory(meter.CounterMemory).Read(0, uint32(8*blocks))
		for i := range list {
			list[i] = binary.LittleEndian.Uint64(view[8*i:])
		}
		return list
	}, func() { _ = m.Close(ctx) }
}

// Counting changes neither what a module does nor the fuel that it takes, and the counters add up to that fuel's own story: no
// block runs where its function has not been entered.
func TestACountedModuleDoesTheSame(t *testing.T) {
	v := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{choices: choices().Draw(t, "choices")}
		original := g.module()
		plain, err := meter.Rewrite(original, meter.Options{MaxPages: 3})
		if err != nil {
			t.Fatal(err)
		}
		counted, err := meter.Rewrite(original, meter.Options{MaxPages: 3, Count: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(plain.Blocks) != 0 || len(counted.Blocks) == 0 {
			t.Fatalf("%d blocks without counting, %d with it", len(plain.Blocks), len(counted.Blocks))
		}
		if err := verify.Check(counted.Wasm); err != nil {
			t.Fatalf("%v\n%x", err, counted.Wasm)
		}
		a, b := rapid.Int32().Draw(t, "a"), rapid.Int32().Draw(t, "b")
		want, fuel := v.run(t, plain.Wasm, true, a, b)
		counts, done := v.counting(t, len(counted.Blocks))
		defer done()
		got, spent := v.run(t, counted.Wasm, true, a, b)
		if got != want || spent != fuel {
			t.Fatalf("counted %+v for %d, plain %+v for %d\n%x", got, spent, want, fuel, original)
		}
		entered := map[int]bool{}
		for i, n := range counts() {
			block := counted.Blocks[i]
			if i == 0 || counted.Blocks[i-1].Function != block.Function {
				entered[block.Function] = n > 0
			}
			if n > 0 && !entered[block.Function] {
				t.Fatalf("block %d ran %d times in a function that was not entered", i, n)
			}
		}
	})
}

func TestCountsAreExact(t *testing.T) {
	v := newWorld(t)
	m := w.New()
	m.Memory(1, 1)
	// do { if (a == b) b = 7; } while (--a); return b. The blocks are the entry, the loop, the assignment, the condition and the end.
	m.Export("f", m.Func("ii>i", "",
		w.Loop(w.LocalGet(0), w.LocalGet(1), w.Op(0x46), w.If(w.I32(7), w.LocalSet(1)), w.LocalGet(0), w.I32(1), w.Op(0x6b, 0x22, 0), w.BrIf(0)),
		w.LocalGet(1)))
	out, err := meter.Rewrite(m.Bytes(), meter.Options{MaxPages: 1, Count: true})
	if err != nil {
		t.Fatal(err)
	}
	counts, done := v.counting(t, len(out.Blocks))
	defer done()
	v.run(t, out.Wasm, true, 1000, 990)
	for i, want := range []uint64{1, 1000, 2, 1000, 1} {
		if have := counts(); len(have) != 5 || have[i] != want {
			t.Fatalf("counts %v, want 1, 1000, 2, 1000, 1", have)
		}
	}
}

// Blocks follow each other through the code section without a gap in a function, and lie where the original has them.
func TestBlocksLieInTheCodeSection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{choices: choices().Draw(t, "choices")}
		original := g.module()
		out, err := meter.Rewrite(original, meter.Options{MaxPages: 3, Count: true})
		if err != nil {
			t.Fatal(err)
		}
		last := meter.Block{Function: -1}
		for i, b := range out.Blocks {
			switch {
			case b.Start >= b.End || b.End > len(original):
				t.Fatalf("block %d is %+v", i, b)
			case b.Function == last.Function && b.Start != last.End, b.Function != last.Function && b.Start <= last.End:
				t.Fatalf("block %d is %+v behind %+v", i, b, last)
			}
			last = b
		}
	})
}

func TestVerifierFindsAStrayCount(t *testing.T) {
	m := w.New()
	m.Import("env", "nothing", "i>")
	m.Memory(1, -1)
	m.Export("f", m.Func("ii>i", "", w.I32(99), w.Call(0), w.I32(0)))
	out, err := meter.Rewrite(m.Bytes(), meter.Options{MaxPages: 1, Count: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := verify.Check(out.Wasm); err != nil {
		t.Fatal(err)
	}
	const count = 4
	bad := bytes.Replace(out.Wasm, w.Join(w.I32(99), w.Call(0)), w.Join(w.I32(99), w.Call(count)), 1)
	if bytes.Equal(bad, out.Wasm) || verify.Check(bad) == nil {
		t.Error("a count of the module's own is not found")
	}
}
