package meter

import (
	"bytes"
	"strings"
)

// The sections of a module.
const (
	secCustom    = 0
	secType      = 1
	secImport    = 2
	secFunction  = 3
	secTable     = 4
	secMemory    = 5
	secGlobal    = 6
	secExport    = 7
	secStart     = 8
	secElement   = 9
	secCode      = 10
	secData      = 11
	secDataCount = 12
)

// order is the place of each section in a module.
var order = [...]int{secType: 1, secImport: 2, secFunction: 3, secTable: 4, secMemory: 5, secGlobal: 6, secExport: 7, secStart: 8,
	secElement: 9, secDataCount: 10, secCode: 11, secData: 12}

// The value types that are known.
const (
	typeI32       = 0x7f
	typeI64       = 0x7e
	typeF32       = 0x7d
	typeF64       = 0x7c
	typeFuncref   = 0x70
	typeExternref = 0x6f
)

type functype struct{ params, results []byte }

type limits struct {
	min, max uint32
	hasMax   bool
}

type table struct {
	elem   byte
	limits limits
}

type global struct {
	typ     byte
	mutable bool
	init    []byte // expression, its end included
}

type export struct {
	name  string
	kind  byte
	index uint32
}

// The kinds of imports and exports.
const (
	kindFunc   = 0
	kindTable  = 1
	kindMemory = 2
	kindGlobal = 3
)

// module is a decoded module.
type module struct {
	types     []functype
	imports   []Import
	funcs     []uint32 // type of each function, imports first
	tables    []table
	memory    *limits
	globals   []global
	exports   []export
	start     *uint32
	elements  []element
	dataCount *uint32
	bodies    [][]byte
	bodyAt    []int // where each begins in the code section's content
	codeAt    int   // where that begins in the module
	data      []segment
	names     []byte // the name section
}

func decode(wasm []byte) (*module, error) {
	r := &reader{data: wasm}
	if !bytes.Equal(r.bytes(8), []byte("\x00asm\x01\x00\x00\x00")) {
		return nil, malformed("not a WebAssembly module of version 1; it begins with % x", wasm[:min(len(wasm), 8)])
	}
	m := &module{}
	last := 0
	for !r.done() && r.err == nil {
		id := int(r.byte())
		body := &reader{data: r.bytes(r.count())}
		if r.err != nil {
			break
		}
		if id == secCustom {
			if m.custom(body); body.err != nil {
				return nil, body.err
			}
			continue
		}
		if id >= len(order) {
			return nil, unsupported("section %d", id)
		}
		if order[id] <= last {
			return nil, malformed("section %d is duplicate or in the wrong place", id)
		}
		last = order[id]
		if id == secCode {
			m.codeAt = r.at - len(body.data)
		}
		if err := m.section(id, body); err != nil {
			return nil, err
		}
	}
	return m, r.err
}

func (m *module) custom(r *reader) {
	if r.name() == "name" && r.err == nil {
		m.names = r.data[r.at:]
	}
}

func (m *module) section(id int, r *reader) error {
	var err error
	switch id {
	case secType:
		err = m.readTypes(r)
	case secImport:
		err = m.readImports(r)
	case secFunction:
		err = m.readFunctions(r)
	case secTable:
		err = m.readTables(r)
	case secMemory:
		err = m.readMemory(r)
	case secGlobal:
		err = m.readGlobals(r)
	case secExport:
		err = m.readExports(r)
	case secStart:
		v := r.u32()
		m.start = &v
	case secElement:
		err = m.readElements(r)
	case secDataCount:
		v := r.u32()
		m.dataCount = &v
	case secCode:
		err = m.readBodies(r)
	case secData:
		err = m.readData(r)
	}
	if err == nil && r.err == nil && !r.done() {
		r.fail("bytes left over in a section")
	}
	if r.err != nil {
		return r.err
	}
	return err
}

func (m *module) readTypes(r *reader) error {
	n := r.count()
	if n > MaxTypes {
		return over("types", n, MaxTypes)
	}
	for range n {
		if form := r.byte(); form != 0x60 && r.err == nil {
			return unsupported("type form %#x", form)
		}
		t := functype{params: r.valtypes(), results: r.valtypes()}
		if len(t.params) > MaxArity || len(t.results) > MaxArity {
			return over("parameters or results", max(len(t.params), len(t.results)), MaxArity)
		}
		m.types = append(m.types, t)
	}
	return nil
}

func (r *reader) valtypes() []byte {
	list := r.bytes(r.count())
	for _, t := range list {
		if !known(t) {
			r.fail("unknown value type")
		}
	}
	return list
}

func known(t byte) bool {
	return t >= typeF64 && t <= typeI32 || t == typeFuncref || t == typeExternref
}

func (m *module) readImports(r *reader) error {
	n := r.count()
	if n > MaxImports {
		return over("imports", n, MaxImports)
	}
	for range n {
		imp := Import{Module: r.label(), Name: r.label()}
		kind := r.byte()
		if r.err != nil {
			return nil
		}
		if kind == kindMemory {
			if err := m.ownMemory(imp, r.limits()); err != nil {
				return err
			}
			continue
		}
		if kind != kindFunc {
			return unsupported("the import %s.%s is not a function; a policy has to define its own memory, tables and globals", imp.Module, imp.Name)
		}
		if strings.HasPrefix(imp.Module, Prefix) || strings.HasPrefix(imp.Name, Prefix) {
			return unsupported("the import %s.%s uses the reserved prefix %s", imp.Module, imp.Name, Prefix)
		}
		t := r.u32()
		if err := m.addFunction(t); err != nil {
			return err
		}
		imp.Type = m.types[t].signature()
		m.imports = append(m.imports, imp)
	}
	return nil
}

func (m *module) readFunctions(r *reader) error {
	n := r.count()
	if n > MaxFunctions {
		return over("functions", n, MaxFunctions)
	}
	for range n {
		if err := m.addFunction(r.u32()); err != nil {
			return err
		}
	}
	return nil
}

func (m *module) addFunction(t uint32) error {
	if int64(t) >= int64(len(m.types)) {
		return malformed("a function has type %d of %d", t, len(m.types))
	}
	m.funcs = append(m.funcs, t)
	return nil
}

func (r *reader) limits() limits {
	flag := r.byte()
	l := limits{hasMax: flag&1 != 0}
	if flag > 1 && r.err == nil {
		r.err = unsupported("limits of form %#x: shared or 64-bit memory", flag)
		return l
	}
	l.min = r.u32()
	if l.hasMax {
		l.max = r.u32()
		if l.max < l.min {
			r.fail("limits whose maximum is below the minimum")
		}
	}
	return l
}

func (m *module) readTables(r *reader) error {
	n := r.count()
	if n > MaxTables {
		return over("tables", n, MaxTables)
	}
	for range n {
		t := table{elem: r.byte(), limits: r.limits()}
		if t.elem != typeFuncref && t.elem != typeExternref && r.err == nil {
			return unsupported("a table of type %#x", t.elem)
		}
		if t.limits.min > MaxTable {
			return over("elements of a table", int(t.limits.min), MaxTable)
		}
		m.tables = append(m.tables, t)
	}
	return nil
}

// maxPages is the address space of 32 bits.
const maxPages = 1 << 16

func (m *module) readMemory(r *reader) error {
	n := r.count()
	if n > 1 || n == 1 && m.memory != nil {
		return unsupported("several memories")
	}
	for range n {
		l := r.limits()
		if most := max(l.min, l.max); most > maxPages {
			return malformed("a memory of %d pages, of which there are %d", most, maxPages)
		}
		m.memory = &l
	}
	return nil
}

func (m *module) readGlobals(r *reader) error {
	n := r.count()
	if n > MaxGlobals {
		return over("globals", n, MaxGlobals)
	}
	for range n {
		g := global{typ: r.byte()}
		mutable := r.byte()
		if (!known(g.typ) || mutable > 1) && r.err == nil {
			return unsupported("a global of type %#x", g.typ)
		}
		g.mutable = mutable == 1
		g.init = r.constant(m)
		m.globals = append(m.globals, g)
	}
	return nil
}

// constant reads a constant expression of one instruction and returns its bytes. The rewriter shifts the index of a ref.func.
func (r *reader) constant(m *module) []byte {
	begin := r.at
	switch op := r.byte(); op {
	case opI32Const:
		r.signed(32)
	case opI64Const:
		r.signed(64)
	case opF32Const:
		r.bytes(4)
	case opF64Const:
		r.bytes(8)
	case opRefNull:
		r.byte()
	case opRefFunc:
		if f := r.u32(); int64(f) >= int64(len(m.funcs)) {
			r.fail("reference to an unknown function")
		}
	default:
		// global.get could only name an imported global, of which there is none.
		r.fail("unknown constant expression")
	}
	if end := r.byte(); end != opEnd {
		r.fail("constant expression of several instructions")
	}
	return r.data[begin:min(r.at, len(r.data))]
}

func (m *module) readExports(r *reader) error {
	n := r.count()
	if n > MaxExports {
		return over("exports", n, MaxExports)
	}
	seen := make(map[string]bool, n)
	for range n {
		e := export{name: r.label(), kind: r.byte(), index: r.u32()}
		if r.err != nil {
			return nil
		}
		if strings.HasPrefix(e.name, Prefix) {
			return unsupported("the export %s uses the reserved prefix %s", e.name, Prefix)
		}
		if seen[e.name] {
			return malformed("the export %s is duplicate", e.name)
		}
		seen[e.name] = true
		m.exports = append(m.exports, e)
	}
	return nil
}

func (m *module) readBodies(r *reader) error {
	n := r.count()
	if n != len(m.funcs)-len(m.imports) {
		return malformed("%d function bodies for %d functions", n, len(m.funcs)-len(m.imports))
	}
	for range n {
		size := r.count()
		if size > MaxBody {
			return over("bytes of one function", size, MaxBody)
		}
		m.bodyAt = append(m.bodyAt, r.at)
		m.bodies = append(m.bodies, r.bytes(size))
	}
	return nil
}

func (t functype) signature() Signature {
	s := "(" + typeNames(t.params) + ")"
	if len(t.results) > 0 {
		s += " -> " + typeNames(t.results)
	}
	return Signature(s)
}

func typeNames(list []byte) string {
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = typeName(t)
	}
	return strings.Join(names, ", ")
}

func typeName(t byte) string {
	switch t {
	case typeI32:
		return "i32"
	case typeI64:
		return "i64"
	case typeF32:
		return "f32"
	case typeF64:
		return "f64"
	case typeFuncref:
		return "funcref"
	}
	return "externref"
}
