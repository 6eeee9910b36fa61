// Package wasmtest assembles small WebAssembly modules for tests, valid or not.
//
// Start with New, or with Policy for a module that has what the contract wants. Types are written like "il>i": i is i32,
// l is i64, f is f32, d is f64. It is for tests only.
package wasmtest

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// Module is a module in the making.
type Module struct {
	types, imports, functions, exports, globals, codes, data [][]byte
	table, memory, start, elements                           []byte
	names                                                    [][]byte
	imported                                                 uint32
}

// New is an empty module.
func New() *Module { return &Module{} }

// Policy is a module with one page of memory (or more), a version and a buffer of 60,000 bytes at 4096.
func Policy(pages int) *Module {
	m := New()
	m.Memory(pages, -1)
	return m
}

// Hook finishes a Policy: its body takes the length of the frame and gives the answer.
func (m *Module) Hook(name, locals string, body ...[]byte) []byte {
	m.Export("flynn_abi", m.Func(">i", "", I32(abi.Version)))
	m.Export("flynn_buffer", m.Func("i>i", "", I32(4096), I32(0), LocalGet(0), I32(60_000), Op(0x4d), Op(0x1b))) // le_u, select
	m.Export(name, m.Func("i>l", locals, body...))
	return m.Bytes()
}

// Op is instructions without immediates, or any bytes.
func Op(b ...byte) []byte { return b }

// I32 is i32.const.
func I32(v int32) []byte { return append([]byte{0x41}, Signed(int64(v))...) }

// I64 is i64.const.
func I64(v int64) []byte { return append([]byte{0x42}, Signed(v)...) }

// LocalGet is local.get.
func LocalGet(i uint32) []byte { return with(0x20, i) }

// LocalSet is local.set.
func LocalSet(i uint32) []byte { return with(0x21, i) }

// GlobalGet is global.get.
func GlobalGet(i uint32) []byte { return with(0x23, i) }

// GlobalSet is global.set.
func GlobalSet(i uint32) []byte { return with(0x24, i) }

// Call is call.
func Call(f uint32) []byte { return with(0x10, f) }

// Br is br.
func Br(label uint32) []byte { return with(0x0c, label) }

// BrIf is br_if.
func BrIf(label uint32) []byte { return with(0x0d, label) }

// Load and store instructions with an offset.
func Load(op byte, offset uint32) []byte { return append([]byte{op, 0}, Unsigned(offset)...) }

// Block is a block around code, without a result. So are Loop and If.
func Block(code ...[]byte) []byte { return Around(0x02, 0x40, code...) }

// Loop is a loop.
func Loop(code ...[]byte) []byte { return Around(0x03, 0x40, code...) }

// If is an if without an else.
func If(code ...[]byte) []byte { return Around(0x04, 0x40, code...) }

// Around is a block of any kind and type.
func Around(op, typ byte, code ...[]byte) []byte {
	return append(append([]byte{op, typ}, bytes.Join(code, nil)...), 0x0b)
}

// Join is code after code.
func Join(code ...[]byte) []byte { return bytes.Join(code, nil) }

// Repeat is the same code n times.
func Repeat(n int, code ...[]byte) []byte { return bytes.Repeat(bytes.Join(code, nil), n) }

func with(op byte, i uint32) []byte { return append([]byte{op}, Unsigned(i)...) }

// Unsigned is a number in LEB128.
func Unsigned(v uint32) []byte { return binary.AppendUvarint(nil, uint64(v)) }

// Signed is a signed number in LEB128.
func Signed(v int64) []byte {
	var b []byte
	for {
		low := byte(v & 0x7f)
		v >>= 7
		if v == 0 && low&0x40 == 0 || v == -1 && low&0x40 != 0 {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}

func vector(items [][]byte) []byte {
	return append(Unsigned(uint32(len(items))), bytes.Join(items, nil)...)
}

func named(s string) []byte { return append(Unsigned(uint32(len(s))), s...) }

func valtypes(letters string) []byte {
	b := Unsigned(uint32(len(letters)))
	for _, l := range letters {
		b = append(b, map[rune]byte{'i': 0x7f, 'l': 0x7e, 'f': 0x7d, 'd': 0x7c, 'v': 0x7b}[l])
	}
	return b
}

// Type adds a function type.
func (m *Module) Type(signature string) uint32 {
	params, results, _ := strings.Cut(signature, ">")
	t := append(append([]byte{0x60}, valtypes(params)...), valtypes(results)...)
	for i, have := range m.types {
		if bytes.Equal(have, t) {
			return uint32(i)
		}
	}
	m.types = append(m.types, t)
	return uint32(len(m.types) - 1)
}

// Import adds an imported function. Imports come before functions.
func (m *Module) Import(module, name, signature string) uint32 {
	m.imports = append(m.imports, Join(named(module), named(name), []byte{0}, Unsigned(m.Type(signature))))
	m.imported++
	return m.imported - 1
}

// Func adds a function.
func (m *Module) Func(signature, locals string, code ...[]byte) uint32 {
	m.functions = append(m.functions, Unsigned(m.Type(signature)))
	decl := Unsigned(uint32(len(locals)))
	for _, l := range locals {
		decl = append(append(decl, 1), valtypes(string(l))[1:]...)
	}
	body := append(append(decl, bytes.Join(code, nil)...), 0x0b)
	m.codes = append(m.codes, append(Unsigned(uint32(len(body))), body...))
	return m.imported + uint32(len(m.functions)) - 1
}

// Next is the index that the next function will have.
func (m *Module) Next() uint32 { return m.imported + uint32(len(m.functions)) }

// Export exports a function.
func (m *Module) Export(name string, f uint32) {
	m.exports = append(m.exports, Join(named(name), []byte{0}, Unsigned(f)))
}

// Memory adds a memory, exported as "memory"; most is -1 for none.
func (m *Module) Memory(pages, most int) {
	m.memory = append([]byte{1, 0}, Unsigned(uint32(pages))...)
	if most >= 0 {
		m.memory = Join([]byte{1, 1}, Unsigned(uint32(pages)), Unsigned(uint32(most)))
	}
	m.exports = append(m.exports, Join(named("memory"), []byte{2, 0}))
}

// Global adds a mutable i32.
func (m *Module) Global(v int32) uint32 {
	m.globals = append(m.globals, Join([]byte{0x7f, 1}, I32(v), []byte{0x0b}))
	return uint32(len(m.globals) - 1)
}

// ExportGlobal exports a global.
func (m *Module) ExportGlobal(name string, g uint32) {
	m.exports = append(m.exports, Join(named(name), []byte{3}, Unsigned(g)))
}

// Data adds an active segment.
func (m *Module) Data(at int32, b []byte) {
	m.data = append(m.data, Join([]byte{0}, I32(at), []byte{0x0b}, Unsigned(uint32(len(b))), b))
}

// Table adds a table that holds the functions.
func (m *Module) Table(functions ...uint32) {
	n := Unsigned(uint32(len(functions)))
	m.table = Join([]byte{1, 0x70, 0}, n)
	m.elements = Join([]byte{1, 0, 0x41, 0, 0x0b}, n)
	for _, f := range functions {
		m.elements = append(m.elements, Unsigned(f)...)
	}
}

// Start sets the start function.
func (m *Module) Start(f uint32) { m.start = Unsigned(f) }

// Name gives a function a name for stack traces. Names are given in the order of functions.
func (m *Module) Name(f uint32, name string) {
	m.names = append(m.names, Join(Unsigned(f), named(name)))
}

// Bytes is the module.
func (m *Module) Bytes() []byte {
	b := []byte("\x00asm\x01\x00\x00\x00")
	add := func(id byte, content []byte) {
		if content != nil {
			b = Join(b, []byte{id}, Unsigned(uint32(len(content))), content)
		}
	}
	list := func(id byte, items [][]byte) {
		if len(items) > 0 {
			add(id, vector(items))
		}
	}
	list(1, m.types)
	list(2, m.imports)
	list(3, m.functions)
	add(4, m.table)
	add(5, m.memory)
	list(6, m.globals)
	list(7, m.exports)
	add(8, m.start)
	add(9, m.elements)
	list(10, m.codes)
	list(11, m.data)
	if len(m.names) > 0 {
		part := vector(m.names)
		add(0, Join(named("name"), []byte{1}, Unsigned(uint32(len(part))), part))
	}
	return b
}
