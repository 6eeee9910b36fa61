package meter

import (
	"fmt"
	"slices"
)

// Plan is the layout of a module, for people who inspect it.
type Plan struct {
	MinPages, MaxPages int      // of its memory; the maximum is -1 where it names none
	Tables             []string // like "funcref, 3 to 3 elements"
	Globals            int
	Mutable            int // of the globals
	Code, Data         int // bytes
	Functions          int // of its own
	// Recursive are functions that call each other in a circle, or themselves, by direct calls.
	Recursive []int
	// ThroughTables is the number of further functions that may do so by calls through tables.
	ThroughTables int
	IndirectCalls int
	Hidden        []string // instructions that change state outside of memory and globals
	Floats        bool
	ABI           uint32 // the result of flynn_abi if it is a constant, or 0
}

// Survey reads the layout of a module. It checks no more than Rewrite does, and changes nothing.
func Survey(wasm []byte) (*Plan, error) {
	m, err := read(wasm)
	if err != nil {
		return nil, err
	}
	w := newRewriter(m, Options{})
	g := newGraph(w)
	p := &Plan{MaxPages: -1, Globals: len(m.globals), Functions: len(m.bodies)}
	for i, body := range m.bodies {
		f, err := w.analyse(m.types[m.funcs[len(m.imports)+i]], body)
		if err != nil {
			return nil, fmt.Errorf("function %d: %w", len(m.imports)+i, err)
		}
		g.add(i, f, body)
		p.Code += len(body)
		p.IndirectCalls += len(f.indirect)
	}
	p.layout(w)
	p.ABI = w.statedABI()
	p.Recursive = g.circles(false)
	p.ThroughTables = len(g.circles(true)) - len(p.Recursive)
	return p, nil
}

func (p *Plan) layout(w *rewriter) {
	if w.memory != nil {
		p.MinPages = int(w.memory.min)
		if w.memory.hasMax {
			p.MaxPages = int(w.memory.max)
		}
	}
	for _, t := range w.tables {
		most := "any"
		if t.limits.hasMax {
			most = fmt.Sprint(t.limits.max)
		}
		p.Tables = append(p.Tables, fmt.Sprintf("%s, %d to %s elements", typeNames([]byte{t.elem}), t.limits.min, most))
	}
	for _, g := range w.globals {
		if g.mutable {
			p.Mutable++
		}
	}
	for _, s := range w.data {
		p.Data += len(s.data)
	}
	p.Hidden, p.Floats = w.hidden, w.floats
}

// hide records an instruction that changes state outside of memory and globals.
func (w *rewriter) hide(instruction string) {
	if !slices.Contains(w.hidden, instruction) {
		w.hidden = append(w.hidden, instruction)
	}
}

// statedABI returns the version of a function flynn_abi that only returns a constant.
func (m *module) statedABI() uint32 {
	for _, e := range m.exports {
		body := int(e.index) - len(m.imports)
		if e.kind != kindFunc || e.name != "flynn_abi" || body < 0 || body >= len(m.bodies) {
			continue
		}
		r := &reader{data: m.bodies[body]}
		if r.count() == 0 && r.byte() == opI32Const {
			if v := r.signed(32); r.byte() == opEnd && r.err == nil && r.done() {
				return uint32(v)
			}
		}
	}
	return 0
}

// graph is the call graph. It has a node for each of the module's own functions, followed by one for each type: an indirect call leads to the
// node of its type, and from there to every function of that type that a table may hold.
type graph struct {
	w       *rewriter
	edges   [][]int // direct calls, and calls of types
	through [][]int // of types, to functions
	same    []int   // for each type, the first one that is the same
}

func newGraph(w *rewriter) *graph {
	g := &graph{w: w, edges: make([][]int, len(w.bodies)), through: make([][]int, len(w.types)), same: make([]int, len(w.types))}
	first := map[Signature]int{}
	for i, t := range w.types {
		s := t.signature()
		if _, ok := first[s]; !ok {
			first[s] = i
		}
		g.same[i] = first[s]
	}
	for _, e := range w.elements {
		for _, f := range e.funcs {
			g.hold(f)
		}
		for _, x := range e.exprs {
			if r := (&reader{data: x, at: 1}); x[0] == opRefFunc {
				g.hold(r.u32())
			}
		}
	}
	return g
}

// hold records that a table may hold a function.
func (g *graph) hold(f uint32) {
	if own := int(f) - len(g.w.imports); own >= 0 {
		t := g.same[g.w.funcs[f]]
		g.through[t] = append(g.through[t], own)
	}
}

func (g *graph) add(own int, f *function, body []byte) {
	for _, e := range f.edits {
		if e.kind != editCall {
			continue
		}
		if callee := int(e.arg) - len(g.w.imports); body[e.at-1] == opRefFunc {
			g.hold(e.arg)
		} else if callee >= 0 {
			g.edges[own] = append(g.edges[own], callee)
		}
	}
	for _, t := range f.indirect {
		g.edges[own] = append(g.edges[own], len(g.edges)+g.same[t])
	}
}

// to returns the successors of a node.
func (g *graph) to(node int) []int {
	if node >= len(g.edges) {
		return g.through[node-len(g.edges)]
	}
	return g.edges[node]
}

// circles returns the indices of the recursive functions, by Tarjan's algorithm. It recurses as deep as the module has functions and types, both
// of which are bounded; Go's stack holds that many calls.
func (g *graph) circles(indirect bool) []int {
	n := len(g.edges) + len(g.through)
	order, low, open := make([]int, n), make([]int, n), make([]bool, n) // an order of 0 is not seen
	var stack, functions []int
	counter := 0
	var visit func(node int)
	visit = func(node int) {
		counter++
		order[node], low[node], open[node] = counter, counter, true
		stack = append(stack, node)
		for _, next := range g.to(node) {
			switch {
			case !indirect && next >= len(g.edges):
			case order[next] == 0:
				visit(next)
				low[node] = min(low[node], low[next])
			case open[next]:
				low[node] = min(low[node], order[next])
			}
		}
		if low[node] != order[node] {
			return
		}
		first := len(stack) - 1
		for stack[first] != node {
			first--
		}
		circle := stack[first:]
		stack = stack[:first]
		for _, member := range circle {
			open[member] = false
			if member < len(g.edges) && (len(circle) > 1 || slices.Contains(g.to(node), node)) {
				functions = append(functions, member+len(g.w.imports))
			}
		}
	}
	for root := range g.edges {
		if order[root] == 0 {
			visit(root)
		}
	}
	slices.Sort(functions)
	return functions
}
