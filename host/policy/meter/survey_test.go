package meter_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/policy/meter"
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
)

func TestSurvey(t *testing.T) {
	m := w.New()
	m.Import("flynn1", "trace", "ii>")
	m.Memory(2, 7)
	m.Global(3)
	m.Data(0, []byte("12345"))
	leaf := m.Func(">", "", w.I32(1), w.I32(1), w.Call(0))
	self := m.Func(">", "", w.Call(leaf+1))
	even := m.Func(">", "", w.Call(leaf), w.Call(leaf+3))
	odd := m.Func(">", "", w.Call(even))
	call := w.Join(w.I32(0), w.Op(0x11), w.Unsigned(m.Type("i>")), w.Op(0))
	through := m.Func("i>", "", w.LocalGet(0), call) // its own type, and it is in the table
	other := m.Func("ii>", "", w.I32(7), call)       // calls that type and is of another one
	m.Table(through, leaf)
	m.Export("flynn_abi", m.Func(">i", "", w.I32(1<<16|1)))
	p, err := meter.Survey(m.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{int(self), int(even), int(odd)}; !slices.Equal(p.Recursive, want) || p.ThroughTables != 1 || p.IndirectCalls != 2 {
		t.Errorf("recursive %v, want %v; through tables %d; %d indirect calls; leaf %d, other %d", p.Recursive, want, p.ThroughTables, p.IndirectCalls, leaf, other)
	}
	if p.MinPages != 2 || p.MaxPages != 7 || p.Mutable != 1 || p.Data != 5 || p.Functions != 7 || p.ABI != 1<<16|1 || p.Floats || p.Hidden != nil {
		t.Errorf("%+v", p)
	}
	if want := []string{"funcref, 2 to any elements"}; !slices.Equal(p.Tables, want) {
		t.Errorf("tables %q", p.Tables)
	}
}

func TestSurveyNamesHiddenState(t *testing.T) {
	m := w.New()
	m.Memory(1, -1)
	f := m.Func(">", "", w.I32(0), w.Op(0xd0, 0x70), w.Op(0x26, 0), w.Op(0xfc, 13, 0)) // table.set, elem.drop
	m.Table(f)
	p, err := meter.Survey(m.Bytes())
	if err != nil || !slices.Equal(p.Hidden, []string{"table.set", "elem.drop"}) {
		t.Errorf("%+v, %v", p, err)
	}
}

// A chain of calls as long as a module may have functions must not exhaust the surveyor's own stack or time.
func TestSurveyOfALongChain(t *testing.T) {
	m := w.New()
	m.Memory(1, -1)
	const n = 50_000
	for i := range uint32(n) {
		m.Func(">", "", w.Call((i+1)%n))
	}
	p, err := meter.Survey(m.Bytes())
	if err != nil || len(p.Recursive) != n {
		t.Error(fmt.Sprint(len(p.Recursive)), err)
	}
}

// FuzzSurvey feeds anything. Every module that Rewrite accepts can be surveyed.
func FuzzSurvey(f *testing.F) {
	f.Add([]byte{})
	f.Add(w.Policy(1).Hook("flynn_route", "il", w.Loop(w.Br(0)), w.I64(0)))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if len(wasm) > 1<<16 {
			return
		}
		_, err := meter.Survey(wasm)
		if _, refused := meter.Rewrite(wasm, meter.Options{MaxPages: 16}); refused == nil && err != nil {
			t.Errorf("accepted and not surveyed: %v", err)
		}
		sections, _ := meter.Sections(wasm)
		for _, s := range sections {
			meter.FunctionNames(s.Data)
			meter.Producers(s.Data)
		}
	})
}
