package meter_test

import (
	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"pgregory.net/rapid"
)

// choices is what a generator decides by; where they end, it takes the first of everything.
func choices() *rapid.Generator[[]byte] { return rapid.SliceOfN(rapid.Byte(), 300, 1500) }

// generator makes small functions that are valid and end: loops count down.
type generator struct {
	choices []byte
	m       *w.Module
	inLoop  []bool   // for each open label, innermost last: whether it is a loop
	done    []uint32 // functions that may be called, all (i32, i32) -> i32
	budget  int
}

// The locals of a generated function: two parameters, two variables, and a counter for each depth of loops.
const (
	variables = 4
	counters  = 3
	allLocals = "ii" + "iii"
)

func (g *generator) pick(n int) int {
	if len(g.choices) == 0 {
		return 0
	}
	c := int(g.choices[0])
	g.choices = g.choices[1:]
	return c % n
}

func (g *generator) module() []byte {
	g.m = w.New()
	g.m.Type("ii>i")
	g.m.Memory(1, 3)
	g.m.Global(7)
	for range 1 + g.pick(3) {
		g.budget = 40
		g.done = append(g.done, g.m.Func("ii>i", allLocals, g.statements(0), g.expression(0)))
	}
	g.m.Table(g.done...)
	// The global is written to memory, where the test sees it.
	last := g.done[len(g.done)-1]
	g.m.Export("f", g.m.Func("ii>i", "", w.LocalGet(0), w.LocalGet(1), w.Call(last), w.I32(0), w.GlobalGet(0), w.Load(0x36, 0)))
	return g.m.Bytes()
}

func (g *generator) statements(loops int) []byte {
	var code []byte
	for range 1 + g.pick(4) {
		if g.budget--; g.budget < 0 {
			break
		}
		code = append(code, g.statement(loops)...)
	}
	return code
}

func (g *generator) statement(loops int) []byte {
	set := w.LocalSet(uint32(g.pick(variables)))
	switch g.pick(17) {
	case 0, 1:
		return w.Join(g.expression(0), set)
	case 2:
		return w.Join(g.expression(0), w.GlobalSet(0))
	case 3:
		return w.Join(g.expression(0), g.block(0x04, loops))
	case 4:
		g.inLoop = append(g.inLoop, false)
		code := w.Join(g.expression(0), []byte{0x04, 0x40}, g.statements(loops), []byte{0x05}, g.statements(loops), []byte{0x0b})
		g.inLoop = g.inLoop[:len(g.inLoop)-1]
		return code
	case 5:
		return g.block(0x02, loops)
	case 6:
		return g.loop(loops)
	case 7:
		return g.leave()
	case 8:
		return w.Join(g.expression(0), w.If(g.expression(0), w.Op(0x0f)))
	case 9:
		return w.Join(g.address(), g.expression(0), w.Load(0x36, uint32(g.pick(64))))
	case 10:
		return w.Join(g.address(), g.expression(0), w.I32(int32(g.pick(300))), w.Op(0xfc, 11, 0))
	case 11:
		return w.Join(g.address(), g.address(), w.I32(int32(g.pick(300))), w.Op(0xfc, 10, 0, 0))
	case 12:
		return w.Join(w.I32(int32(g.pick(3))), w.Op(0x40, 0), set)
	case 13:
		if len(g.done) > 0 { // the first function calls none through the table, so that nothing comes back to itself
			return w.Join(g.expression(0), w.I32(3), w.Op(0x71), w.Op(0xd2), w.Unsigned(g.done[0]), w.Op(0x26, 0))
		}
	case 14:
		return w.Join(w.Op(0xd0, 0x70), w.I32(int32(g.pick(4))), w.Op(0xfc, 15, 0), set)
	case 15:
		return w.Join(w.I32(int32(g.pick(4))), w.Op(0xd0, 0x70), w.I32(int32(g.pick(3))), w.Op(0xfc, 17, 0))
	}
	return g.table(loops)
}

func (g *generator) block(op byte, loops int) []byte {
	g.inLoop = append(g.inLoop, false)
	code := w.Around(op, 0x40, g.statements(loops))
	g.inLoop = g.inLoop[:len(g.inLoop)-1]
	return code
}

func (g *generator) loop(loops int) []byte {
	if loops >= counters {
		return nil
	}
	counter := uint32(variables + loops)
	g.inLoop = append(g.inLoop, true)
	body := g.statements(loops + 1)
	g.inLoop = g.inLoop[:len(g.inLoop)-1]
	return w.Join(w.I32(int32(1+g.pick(4))), w.LocalSet(counter),
		w.Loop(body, w.LocalGet(counter), w.I32(1), w.Op(0x6b), w.Op(0x22), w.Unsigned(counter), w.BrIf(0)))
}

// leave is a branch, with a condition or without, out of a block that is no loop.
func (g *generator) leave() []byte {
	var labels []uint32
	for i, loop := range g.inLoop {
		if !loop {
			labels = append(labels, uint32(len(g.inLoop)-1-i))
		}
	}
	if len(labels) == 0 {
		return nil
	}
	label := labels[g.pick(len(labels))]
	if g.pick(4) == 0 {
		return w.Br(label)
	}
	return w.Join(g.expression(0), w.BrIf(label))
}

func (g *generator) table(loops int) []byte {
	g.inLoop = append(g.inLoop, false, false)
	inner := w.Join(g.expression(1), w.Op(0x0e, 2, 0, 1, 0))
	g.inLoop = g.inLoop[:len(g.inLoop)-1]
	code := w.Block(w.Block(inner), g.statements(loops))
	g.inLoop = g.inLoop[:len(g.inLoop)-1]
	return code
}

func (g *generator) address() []byte {
	return w.Join(g.expression(1), w.I32(0xfff), w.Op(0x71))
}

func (g *generator) expression(depth int) []byte {
	if depth > 3 || len(g.choices) == 0 || g.pick(3) == 0 {
		switch g.pick(3) {
		case 0:
			return w.I32([]int32{0, 1, -1, 7, 1 << 30, -1 << 31, 255, 4095}[g.pick(8)])
		case 1:
			return w.GlobalGet(0)
		}
		return w.LocalGet(uint32(g.pick(variables)))
	}
	a := g.expression(depth + 1)
	switch g.pick(12) {
	case 0, 1, 2:
		ops := []byte{0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x77, 0x46, 0x48, 0x4d} // division may trap
		return w.Join(a, g.expression(depth+1), w.Op(ops[g.pick(len(ops))]))
	case 3:
		return w.Join(a, g.expression(depth+1), g.expression(depth+1), w.Op(0x1b))
	case 4:
		return w.Join(a, w.I32(0xfff), w.Op(0x71), w.Load(0x28, uint32(g.pick(64))))
	case 5:
		return w.Join(a, []byte{0x04, 0x7f}, g.expression(depth+1), []byte{0x05}, g.expression(depth+1), []byte{0x0b})
	case 6:
		if len(g.done) > 0 {
			return w.Join(a, g.expression(depth+1), w.Call(g.done[g.pick(len(g.done))]))
		}
	case 7:
		target := int32(9) // beyond the table's end
		if n := g.pick(len(g.done) + 1); n < len(g.done) {
			target = int32(n)
		}
		return w.Join(a, g.expression(depth+1), w.I32(target), w.Op(0x11, 0, 0))
	case 8:
		ops := []byte{0x7c, 0x7d, 0x7e, 0x7f, 0x81, 0x82, 0x83, 0x85, 0x86, 0x88, 0x89}
		return w.Join(a, w.Op(0xac), g.expression(depth+1), w.Op(0xad), w.Op(ops[g.pick(len(ops))]), w.Op(0xa7))
	case 9:
		return w.Join(a, w.Op(0xb7), g.expression(depth+1), w.Op(0xb7), g.float(0xa0), w.Op(0xfc, 2)) // f64, saturating
	case 10:
		return w.Join(a, w.Op(0xb2), g.expression(depth+1), w.Op(0xb2), g.float(0x92), w.Op(0xbb), w.Op(0xfc, 2)) // f32, promoted
	}
	return w.Join(a, w.Op(0x45))
}

// float is arithmetic on two floats, which makes NaNs, infinities and what is between.
func (g *generator) float(first byte) []byte {
	op := w.Op(first + byte(g.pick(7))) // add to copysign
	if g.pick(3) == 0 {
		return w.Join(op, w.Op(first-1)) // square root
	}
	return op
}
