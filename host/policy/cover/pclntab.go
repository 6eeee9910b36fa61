package cover

import (
	"bytes"
	"encoding/binary"
	"path"
	"unicode"
	"unicode/utf8"
)

// goTable is the table by which a Go program knows its own functions and lines, as the linker lays it into the memory. Its layout is
// that of runtime/symtab.go since Go 1.20; a table of another one has another number at its head and is not read.
//
// Every offset in it is foreign, so that each is checked where it is used. A reader that runs out of steps stops: small tables can be
// shared by many functions.
type goTable struct {
	count                              int // of functions
	names, units, files, values, funcs []byte
	cleaned                            map[uint32]string // files by their offset
	steps                              int
}

// goFunction is one entry.
type goFunction struct {
	body       int // number of its body in the code section
	name       string
	file, line uint32 // where its tables begin
	unit       uint32 // of the table of files
}

const (
	goHeader      = 72 // bytes
	goEntry       = 8  // of the list of functions
	goDescription = 40 // of a function, as far as it is read
	maxGoTables   = 64 // that look like one
	maxName       = 1024
	maxSteps      = 16 << 20
)

// goMagic is how the table begins for 64 bit addresses and instructions of one byte, which Wasm has.
var goMagic = []byte("\xf1\xff\xff\xff\x00\x00\x01\x08")

// findGoTable looks for the table in a memory; nil where there is none for a module of that many bodies.
func findGoTable(memory []byte, bodies int) *goTable {
	for at, tries := 0, 0; tries < maxGoTables; tries++ {
		next := bytes.Index(memory[at:], goMagic)
		if next < 0 {
			return nil
		}
		at += next
		if t := readGoTable(memory[at:], bodies); t != nil && at%8 == 0 {
			return t
		}
		at += len(goMagic)
	}
	return nil
}

func readGoTable(data []byte, bodies int) *goTable {
	if len(data) < goHeader {
		return nil
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(data[8*i:]) }
	// The parts follow each other, and the last of them reaches to the end of what is known.
	var parts [5][]byte
	for end, i := uint64(len(data)), 4; i >= 0; i-- {
		begin := word(4 + i)
		if begin < goHeader || begin > end {
			return nil
		}
		parts[i], end = data[begin:end], begin
	}
	t := &goTable{names: parts[0], units: parts[1], files: parts[2], values: parts[3], funcs: parts[4], cleaned: map[uint32]string{}, steps: maxSteps}
	if n := word(1); n == 0 || n > uint64(bodies) || n*goEntry > uint64(len(t.funcs)) {
		return nil
	}
	t.count = int(word(1))
	return t
}

// firstFunction is the number that the linker gives to the first function, in the runtime's eyes.
const firstFunction = 0x1000

// function reads an entry. It has the number of the function since Go 1.26, and its address before, which has the number in its upper
// half.
func (t *goTable) function(i int) (goFunction, bool) {
	entry := t.funcs[i*goEntry:]
	body, at := int64(binary.LittleEndian.Uint32(entry)), uint64(binary.LittleEndian.Uint32(entry[4:]))
	if binary.LittleEndian.Uint32(t.funcs) == firstFunction<<16 {
		body >>= 16
	}
	body -= firstFunction
	if body < 0 || at+goDescription > uint64(len(t.funcs)) {
		return goFunction{}, false
	}
	field := func(i int) uint32 { return binary.LittleEndian.Uint32(t.funcs[at+uint64(4*i):]) }
	return goFunction{int(body), text(t.names, field(1)), field(5), field(6), field(8)}, true
}

// text is a string that ends with a zero, or "" where it is none to show.
func text(data []byte, at uint32) string {
	if uint64(at) >= uint64(len(data)) {
		return ""
	}
	data = data[at:min(uint64(len(data)), uint64(at)+maxName)]
	end := bytes.IndexByte(data, 0)
	if end < 0 {
		return ""
	}
	return printable(string(data[:end]))
}

// printable is s, or "" where it has characters that a terminal or a file of lines would take for more than text.
func printable(s string) string {
	for _, c := range s {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			return ""
		}
	}
	return s
}

// fileName is the name of a unit's file.
func (t *goTable) fileName(unit uint32, number int32) string {
	at := 4 * (int64(unit) + int64(number))
	if number < 0 || at+4 > int64(len(t.units)) {
		return ""
	}
	offset := binary.LittleEndian.Uint32(t.units[at:])
	name, ok := t.cleaned[offset]
	if !ok {
		if name = text(t.files, offset); name != "" {
			name = path.Clean(name)
		}
		t.cleaned[offset] = name
	}
	return name
}

// span is a value that holds for a stretch of a function's places.
type span struct {
	from, to int // to is not part of it
	value    int32
}

// maxPlace bounds the places of a function, which have 16 bits of an address.
const maxPlace = 1 << 16

// spans reads one table of values: pairs of differences, of the value and of the place up to which it holds.
func (t *goTable) spans(at uint32) (list []span) {
	if at == 0 || uint64(at) >= uint64(len(t.values)) {
		return list
	}
	data, place, value := t.values[at:], 0, int32(-1)
	for first := true; t.steps > 0 && place < maxPlace; first = false {
		t.steps--
		change, n := binary.Uvarint(data)
		if n <= 0 || change > 1<<32-1 || change == 0 && !first {
			return list
		}
		length, more := binary.Uvarint(data[n:])
		if more <= 0 || length > maxPlace {
			return list
		}
		data = data[n+more:]
		value += int32(uint32(change>>1) ^ -uint32(change&1))
		if length > 0 {
			list = append(list, span{place, place + int(length), value})
		}
		place += int(length)
	}
	return list
}

// placed is a line that holds for a stretch of a function's places.
type placed struct {
	from, to int
	position
}

// lines puts the two tables of a function side by side.
func (t *goTable) lines(f goFunction) []placed {
	files, lines := t.spans(f.file), t.spans(f.line)
	var list []placed
	for len(files) > 0 && len(lines) > 0 {
		from, to := max(files[0].from, lines[0].from), min(files[0].to, lines[0].to)
		if name := t.fileName(f.unit, files[0].value); from < to && name != "" && lines[0].value > 0 && lines[0].value < 1<<30 {
			list = append(list, placed{from, to, position{file: name, line: int(lines[0].value)}})
		}
		if files[0].to == to {
			files = files[1:]
		}
		if len(lines) > 0 && lines[0].to == to {
			lines = lines[1:]
		}
	}
	return list
}
