package meter

import (
	"fmt"
	"slices"
)

// Plan is how a module is laid out, for people who look at it before it runs.
type Plan struct {
	MinPages, MaxPages int      // of its memory; the maximum is -1 where it names none
	Tables             []string // like "funcref, 3 to 3 elements"
	Globals            int
	Mutable            int // of the globals
	Code, Data         int // bytes
	Functions          int // of its own
	// Recursive are functions that call each other in a circle, or themselves, by direct calls.
	Recursive []int
	// ThroughTables is how many more may do so by a call through a table.
	ThroughTables int
	IndirectCalls int
	Hidden        []string // instructions that change what lies outside of memory and globals
	Floats        bool
	ABI           uint32 // what flynn_abi returns, where that is plain to see; else 0
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

// hide notes an instruction that changes what can be neither seen nor put back.
func (w *rewriter) hide(instruction string) {
	if !slices.Contains(w.hidden, instruction) {
		w.hidden = append(w.hidden, instruction)
	}
}

// statedABI reads the version out of a function flynn_abi that is one constant.
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

// graph is who may call whom: a node for each function of the module's own, and behind them one for each type, through which an indirect
// call goes to every function of that type that a table may hold.
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

// hold notes that a table may hold a function.
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

// to are the nodes that one leads to.
func (g *graph) to(node int) []int {
	if node >= len(g.edges) {
		return g.through[node-len(g.edges)]
	}
	return g.edges[node]
}

// circles are the functions that a chain of calls may come back to, by index. It is Tarjan's algorithm, with a stack of its own: a module
// chooses how deep its calls are nested.
func (g *graph) circles(indirect bool) []int {
	n := len(g.edges) + len(g.through)
	order, low := make([]int, n), make([]int, n) // 0 is not seen
	open := make([]bool, n)
	var stack, found []int
	type visit struct{ node, next int }
	counter := 0
	for root := range g.edges {
		if order[root] > 0 {
			continue
		}
		path := []visit{{root, 0}}
		for len(path) > 0 {
			v := &path[len(path)-1]
			if v.next == 0 {
				counter++
				order[v.node], low[v.node], open[v.node] = counter, counter, true
				stack = append(stack, v.node)
			}
			deeper := false
			for to := g.to(v.node); v.next < len(to); {
				next := to[v.next]
				v.next++
				if !indirect && next >= len(g.edges) {
					continue
				}
				if order[next] == 0 {
					path, deeper = append(path, visit{next, 0}), true
					break
				}
				if open[next] {
					low[v.node] = min(low[v.node], order[next])
				}
			}
			if deeper {
				continue
			}
			node := v.node
			if path = path[:len(path)-1]; len(path) > 0 {
				parent := path[len(path)-1].node
				low[parent] = min(low[parent], low[node])
			}
			if low[node] != order[node] {
				continue
			}
			before := len(found)
			for last := -1; last != node; {
				last = stack[len(stack)-1]
				stack, open[last] = stack[:len(stack)-1], false
				found = append(found, last)
			}
			if len(found) == before+1 && !slices.Contains(g.to(node), node) {
				found = found[:before]
			}
		}
	}
	var functions []int
	for _, node := range found {
		if node < len(g.edges) {
			functions = append(functions, node+len(g.w.imports))
		}
	}
	slices.Sort(functions)
	return functions
}
