package meter

import (
	"fmt"
	"strconv"
)

// hostImports is the number of functions that the rewriter imports, by which the indices of the module's functions shift.
const hostImports = 3

// rewriter turns a decoded module into a metered one.
type rewriter struct {
	*module
	options  Options
	ownTypes int               // types of the original; more follow
	newTypes map[string]uint32 // those, by parameters and results

	tick, deep, grow uint32 // indices of the host's functions
	count            uint32 // where blocks are counted
	blocks           []Block
	fuel, depth      uint32 // indices of the globals

	hidden   []string // instructions; see Info.HiddenState
	segments bool     // data segments are named by number
	floats   bool
	mutable  []string
	merged   [2]int
}

func newRewriter(m *module, o Options) *rewriter {
	n := uint32(len(m.imports))
	return &rewriter{module: m, options: o, ownTypes: len(m.types), newTypes: map[string]uint32{},
		tick: n, deep: n + 1, grow: n + 2, count: n + 3,
		fuel: uint32(len(m.globals)), depth: uint32(len(m.globals)) + 1}
}

// check refuses a decoded module that is out of bounds.
func (m *module) check(o Options) error {
	if len(m.bodies) != len(m.funcs)-len(m.imports) {
		return malformed("%d function bodies for %d functions", len(m.bodies), len(m.funcs)-len(m.imports))
	}
	if m.memory != nil && m.memory.min > o.MaxPages {
		return fmt.Errorf("%w: the module needs %d pages of memory, at most %d are allowed", ErrLimit, m.memory.min, o.MaxPages)
	}
	if m.start != nil && int64(*m.start) >= int64(len(m.funcs)) {
		return malformed("the start function is %d of %d", *m.start, len(m.funcs))
	}
	if m.start != nil && m.types[m.funcs[*m.start]].signature() != "()" {
		return malformed("the start function has a type other than ()")
	}
	if err := m.checkElements(); err != nil {
		return err
	}
	if m.dataCount != nil && int64(*m.dataCount) != int64(len(m.data)) {
		return malformed("%d data segments are announced and %d are there", *m.dataCount, len(m.data))
	}
	sizes := [...]int{kindFunc: len(m.funcs), kindTable: len(m.tables), kindMemory: 0, kindGlobal: len(m.globals)}
	if m.memory != nil {
		sizes[kindMemory] = 1
	}
	for _, e := range m.exports {
		if int(e.kind) >= len(sizes) || int64(e.index) >= int64(sizes[e.kind]) {
			return malformed("the export %s names nothing", e.name)
		}
	}
	return nil
}

// moved returns the new index of a function of the original.
func (w *rewriter) moved(f uint32) uint32 {
	if int(f) < len(w.imports) {
		return f
	}
	return f + w.added()
}

// added returns the number of imported functions besides the module's own.
func (w *rewriter) added() uint32 {
	if w.options.Count {
		return hostImports + 1
	}
	return hostImports
}

// build writes the sections. It makes the code first, which decides which types there are and whether data may be merged.
func (w *rewriter) build() ([]byte, error) {
	code, err := w.code()
	if err != nil {
		return nil, err
	}
	imports := w.importSection()
	out := []byte("\x00asm\x01\x00\x00\x00")
	add := func(id byte, content []byte) {
		if content != nil {
			out = appendSection(out, id, content)
		}
	}
	data := w.dataSection()
	add(secType, w.typeSection())
	add(secImport, imports)
	add(secFunction, w.functionSection())
	add(secTable, w.tableSection())
	add(secMemory, w.memorySection())
	add(secGlobal, w.globalSection())
	add(secExport, w.exportSection())
	add(secElement, w.elementSection())
	if w.dataCount != nil {
		add(secDataCount, appendU32(nil, uint32(w.merged[1])))
	}
	add(secCode, code)
	add(secData, data)
	if names := w.nameSection(); names != nil {
		add(secCustom, append(appendName(nil, "name"), names...))
	}
	return out, nil
}

// typeIndex finds or adds a type.
func (w *rewriter) typeIndex(t functype) uint32 {
	key := string(t.params) + ">" + string(t.results) // ">" is no value type
	at, ok := w.newTypes[key]
	if !ok {
		at = uint32(len(w.types))
		w.types = append(w.types, t)
		w.newTypes[key] = at
	}
	return at
}

func (w *rewriter) typeSection() []byte {
	b := appendU32(nil, uint32(len(w.types)))
	for _, t := range w.types {
		b = appendBytes(appendBytes(append(b, 0x60), t.params), t.results)
	}
	return b
}

func (w *rewriter) importSection() []byte {
	b := appendU32(nil, uint32(len(w.imports))+w.added())
	add := func(module, name string, typ uint32) {
		b = appendU32(append(appendName(appendName(b, module), name), kindFunc), typ)
	}
	for i, imp := range w.imports {
		add(imp.Module, imp.Name, w.funcs[i])
	}
	nothing := w.typeIndex(functype{})
	add(ImportModule, TickImport, nothing)
	add(ImportModule, DeepImport, nothing)
	add(ImportModule, GrowImport, w.typeIndex(functype{params: []byte{typeI32}, results: []byte{typeI32}}))
	if w.options.Count {
		add(CountModule, CountImport, w.typeIndex(functype{params: []byte{typeI32}}))
	}
	return b
}

func (w *rewriter) functionSection() []byte {
	own := w.funcs[len(w.imports):]
	b := appendU32(nil, uint32(len(own)))
	for _, t := range own {
		b = appendU32(b, t)
	}
	return b
}

func (w *rewriter) tableSection() []byte {
	if len(w.tables) == 0 {
		return nil
	}
	b := appendU32(nil, uint32(len(w.tables)))
	for _, t := range w.tables {
		l := t.limits
		if !l.hasMax || l.max > MaxTable {
			l.hasMax, l.max = true, MaxTable
		}
		b = appendLimits(append(b, t.elem), l)
	}
	return b
}

func (w *rewriter) memorySection() []byte {
	if w.memory == nil {
		return nil
	}
	l := *w.memory
	if !l.hasMax || l.max > w.options.MaxPages {
		l.hasMax, l.max = true, w.options.MaxPages
	}
	return appendLimits(appendU32(nil, 1), l)
}

func (w *rewriter) globalSection() []byte {
	b := appendU32(nil, uint32(len(w.globals)+2))
	for _, g := range w.globals {
		mutable := byte(0)
		if g.mutable {
			mutable = 1
		}
		b = append(append(b, g.typ, mutable), w.expression(g.init)...)
	}
	counter := []byte{typeI64, 1, opI64Const, 0, opEnd}
	return append(append(b, counter...), counter...)
}

// expression shifts the function index of a constant expression.
func (w *rewriter) expression(expr []byte) []byte {
	if expr[0] != opRefFunc {
		return expr
	}
	r := &reader{data: expr, at: 1}
	return append(appendU32([]byte{opRefFunc}, w.moved(r.u32())), opEnd)
}

func (w *rewriter) exportSection() []byte {
	list := make([]export, 0, len(w.exports)+3)
	for _, e := range w.exports {
		if e.kind == kindFunc {
			e.index = w.moved(e.index)
		}
		list = append(list, e)
	}
	for i, g := range w.globals {
		if g.mutable {
			name := GlobalPrefix + strconv.Itoa(i)
			w.mutable = append(w.mutable, name)
			list = append(list, export{name, kindGlobal, uint32(i)})
		}
	}
	if w.start != nil {
		list = append(list, export{StartExport, kindFunc, w.moved(*w.start)})
	}
	list = append(list, export{FuelGlobal, kindGlobal, w.fuel}, export{DepthGlobal, kindGlobal, w.depth})
	b := appendU32(nil, uint32(len(list)))
	for _, e := range list {
		b = appendU32(append(appendName(b, e.name), e.kind), e.index)
	}
	return b
}

func (w *rewriter) elementSection() []byte {
	if len(w.elements) == 0 {
		return nil
	}
	b := appendU32(nil, uint32(len(w.elements)))
	for _, e := range w.elements {
		b = appendU32(b, e.flags)
		if e.flags&1 == 0 {
			if e.flags&2 != 0 {
				b = appendU32(b, e.table)
			}
			b = append(b, e.offset...)
		}
		if e.flags&3 != 0 {
			b = append(b, e.kind)
		}
		b = appendU32(b, uint32(len(e.funcs)+len(e.exprs)))
		for _, f := range e.funcs {
			b = appendU32(b, w.moved(f))
		}
		for _, x := range e.exprs {
			b = append(b, w.expression(x)...)
		}
	}
	return b
}

func (w *rewriter) dataSection() []byte {
	list := w.data
	if !w.segments && w.memory != nil {
		list = merge(list, uint64(w.memory.min)<<16)
	}
	w.merged = [2]int{len(w.data), len(list)}
	if len(list) == 0 {
		return nil
	}
	b := appendU32(nil, uint32(len(list)))
	for _, s := range list {
		if s.passive {
			b = append(b, 1)
		} else {
			b = append(appendSigned(append(b, 0, opI32Const), int64(int32(s.offset))), opEnd)
		}
		b = appendBytes(b, s.data)
	}
	return b
}

func (w *rewriter) info() Info {
	in := Info{Imports: w.imports, Exports: map[string]Signature{}, HasStart: w.start != nil, Mutable: w.mutable,
		HiddenState: len(w.hidden) > 0, Floats: w.floats, Functions: len(w.bodies), Segments: w.merged}
	for _, e := range w.exports {
		switch {
		case e.kind == kindFunc:
			in.Exports[e.name] = w.types[w.funcs[e.index]].signature()
		case e.kind == kindMemory && e.name == "memory":
			in.HasMemory = true
		}
	}
	if w.memory != nil {
		in.MinPages = w.memory.min
	}
	return in
}
