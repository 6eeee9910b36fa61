package cover

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/policy/meter"
)

// maxMemory bounds the memory in which the table of a Go program is looked for.
const maxMemory = 32 << 20

// goRows reads the lines of a module that Go's compiler has made.
//
// Go's debug information is not in its Wasm, but the table that the runtime needs for its own traces is. It gives lines to places, and a
// place is a number that the function keeps beside its code: that of the part to go on with when it is entered again, because goroutines
// are suspended by leaving all functions. Each function therefore begins with a jump to its parts, one label for each:
//
//	block block block … local.get 0 br_table (place → part) end PART 0 end PART 1 end … PART n
//
// A part is a basic block of the compiler's, or what follows a call. The br_table says which places a part has, and the table which
// lines those have. See preprocess in cmd/internal/obj/wasm/wasmobj.go.
func goRows(module *meter.Inside) []row {
	r := newGoReader(module)
	if r == nil {
		return nil
	}
	return r.read(r.function)
}

// neverRun is a function that package main has to have, and that a library never runs.
const neverRun = "main.main"

// newGoReader is nil for a module without a table of Go's.
func newGoReader(module *meter.Inside) *goReader {
	t := findGoTable(module.Memory(maxMemory), module.Bodies())
	if t == nil {
		return nil
	}
	r := &goReader{module: module, table: t, machinery: make([]bool, module.Bodies()), functions: make([]goFunction, 0, t.count)}
	r.readFunctions()
	return r
}

// read has the rows of each function gathered.
func (r *goReader) read(gather func(goFunction)) []row {
	for _, f := range r.functions {
		if f.name != neverRun && len(r.rows) < maxRows && r.table.steps > 0 {
			gather(f)
		}
	}
	slices.SortStableFunc(r.rows, func(a, b row) int { return cmp.Compare(a.start, b.start) })
	return r.rows
}

// goReader gathers the rows of one module.
type goReader struct {
	module    *meter.Inside
	table     *goTable
	functions []goFunction
	machinery []bool // by body: called only where the program fails or the runtime serves itself
	rows      []row
	code      []meter.Instruction // of one function
}

func (r *goReader) readFunctions() {
	seen := make([]bool, len(r.machinery))
	for i := range r.table.count {
		f, ok := r.table.function(i)
		if !ok || f.body >= len(seen) || seen[f.body] {
			continue
		}
		seen[f.body], r.machinery[f.body] = true, isMachinery(f.name)
		r.functions = append(r.functions, f)
	}
}

// isMachinery knows what the compiler calls beside what the line says: checks that fail, barriers of the garbage collector, slices that
// outgrow their memory. That such a call did not happen says nothing of the cases.
func isMachinery(name string) bool {
	name, ok := strings.CutPrefix(name, "runtime.")
	return ok && slices.ContainsFunc([]string{"panic", "goPanic", "gcWriteBarrier", "wbZero", "wbMove", "growslice", "deferreturn", "morestack", "racefuncenter"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// part is a part of a function, and the places for which it is entered or which lie in it.
type part struct {
	from, to  int // to is not part of it
	stretches []stretch
	machinery bool
	call      bool // ends with a call, behind which the next part goes on
}

// stretch is code of a part that lies outside of the branches in it.
type stretch struct {
	start, end int // in the body
	real       bool
	jump       bool // nothing else than one, which makes it a line like "continue"
}

func (r *goReader) function(f goFunction) {
	lines := r.table.lines(f)
	if len(lines) == 0 || !r.instructions(f) {
		return
	}
	body := r.module.Body(f.body)
	for _, p := range r.work(body) {
		for len(lines) > 0 && lines[0].to <= p.from {
			lines = lines[1:]
		}
		r.place(body.At, p, lines)
	}
}

// instructions reads those of a function.
func (r *goReader) instructions(f goFunction) bool {
	var err error
	r.code, err = r.module.Instructions(r.code[:0], f.body)
	return err == nil
}

// work are the parts of a function but for the machinery.
func (r *goReader) work(body meter.Body) []part {
	after := false
	return slices.DeleteFunc(r.parts(body), func(p part) bool {
		machinery := p.machinery || after
		after = machinery && p.call
		return machinery
	})
}

// place gives a part the lines that begin with the first of a list.
func (r *goReader) place(at int, p part, lines []placed) {
	for _, s := range p.stretches {
		if !s.real {
			continue
		}
		for _, l := range lines {
			if l.from >= p.to || len(r.rows) >= maxRows {
				break
			}
			r.rows = append(r.rows, row{start: at + s.start, end: at + s.end, position: l.position})
		}
	}
}

// The instructions that make a function's frame.
const (
	opUnreachable = 0x00
	opNop         = 0x01
	opBlock       = 0x02
	opLoop        = 0x03
	opIf          = 0x04
	opEnd         = 0x0b
	opBr          = 0x0c
	opBrIf        = 0x0d
	opBrTable     = 0x0e
	opCall        = 0x10
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opGlobalGet   = 0x23
	opI32Const    = 0x41
)

// parts takes a function apart. A function without the jump at its begin is one part.
func (r *goReader) parts(body meter.Body) []part {
	at := jump(r.code)
	if at < 0 {
		p := part{to: maxPlace}
		r.fill(&p, body, r.code, 1)
		return []part{p}
	}
	parts := places(body.Code[r.code[at].At+1:])
	depth := r.code[at].Depth
	code := r.code[at+1:]
	for i := range parts {
		// The end of the label lies before the part, but for the first behind the jump.
		depth--
		if depth < 1 || len(code) == 0 || code[0].Op != opEnd || code[0].Depth != depth+1 {
			return nil
		}
		code = code[1:]
		n := slices.IndexFunc(code, func(in meter.Instruction) bool { return in.Op == opEnd && in.Depth == depth })
		if n < 0 {
			return nil
		}
		r.fill(&parts[i], body, code[:n+1], depth)
		code = code[n:]
	}
	return parts
}

// jump is the number of the br_table with which a function jumps to its parts, or -1.
func jump(code []meter.Instruction) int {
	if len(code) < 4 || code[0].Op != opGlobalGet || code[1].Op != opLocalSet {
		return -1
	}
	i := 2
	for i < len(code) && (code[i].Op == opBlock || code[i].Op == opLoop) {
		i++
	}
	if i == 2 || i+1 >= len(code) || code[i].Op != opLocalGet || code[i+1].Op != opBrTable {
		return -1
	}
	return i + 1
}

// places reads the targets of the jump: for each place the number of its part. They only rise, and by one. The last is of all places
// that remain.
func places(data []byte) []part {
	count, n := binary.Uvarint(data)
	if n <= 0 || count >= maxPlace {
		return nil
	}
	data = data[n:]
	var parts []part
	for place := range int(count) + 1 {
		target, n := binary.Uvarint(data)
		if n <= 0 {
			return nil
		}
		data = data[n:]
		switch {
		case target == uint64(len(parts)):
			parts = append(parts, part{from: place, to: place + 1})
		case target+1 == uint64(len(parts)):
			parts[target].to = place + 1
		default:
			return nil
		}
	}
	parts[len(parts)-1].to = maxPlace
	return parts
}

// fill reads the code of a part, up to the end of its label. What lies in branches is left out: the compiler has nothing in them but
// jumps to other parts and calls of the runtime.
func (r *goReader) fill(p *part, body meter.Body, code []meter.Instruction, depth int) {
	var s stretch
	open := false
	finish := func(at int) {
		if s.end = at; open && s.start < s.end {
			p.stretches = append(p.stretches, s)
		}
		open = false
	}
	for _, in := range code {
		if in.Depth > depth {
			continue
		}
		if !open {
			s, open = stretch{start: in.At}, true
		}
		switch in.Op {
		case opEnd:
			finish(in.At)
			return
		case opIf, opBlock, opLoop:
			s.real = true
			finish(in.At + 1)
			continue
		case opCall:
			callee, n := binary.Uvarint(body.Code[in.At+1:])
			own := int64(callee) - int64(r.module.Imports())
			if n > 0 && own >= 0 && own < int64(len(r.machinery)) && r.machinery[own] {
				p.machinery = true
			}
		}
		p.call = in.Op == opBrIf
		switch {
		case !isJump(in.Op):
			s.real, s.jump = true, false
		case in.Op == opBr && len(p.stretches) == 0 && !s.real:
			s.real, s.jump = true, true
		}
	}
}

// isJump knows what a jump to another part is made of, and the end of code that is never left, behind which a nop may stand.
func isJump(op byte) bool {
	return op == opI32Const || op == opLocalSet || op == opBr || op == opUnreachable || op == opNop
}
