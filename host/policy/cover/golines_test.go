package cover

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// tableOf is a line table of a function with two tables of values, files and lines, as the linker would write it, and of more functions
// without.
func tableOf(name, file string, files, lines []byte, more ...string) []byte {
	le := binary.LittleEndian
	names, values := []byte{0}, slices.Concat([]byte{0}, files, lines)
	var entries, descriptions []byte
	for i, n := range append([]string{name}, more...) {
		entries = le.AppendUint32(entries, uint32(firstFunction+i))
		entries = le.AppendUint32(entries, uint32((1+len(more))*goEntry+i*goDescription))
		fields := []uint32{uint32(firstFunction + i), uint32(len(names)), 0, 0, 0, 1, uint32(1 + len(files)), 0, 0, 1}
		if i > 0 {
			fields[5], fields[6] = 0, 0
		}
		for _, v := range fields {
			descriptions = le.AppendUint32(descriptions, v)
		}
		names = append(names, n+"\x00"...)
	}
	head := slices.Clone(goMagic)
	parts := [][]byte{names, {0, 0, 0, 0}, append([]byte(file), 0), values, append(entries, descriptions...)}
	for _, n := range []uint64{uint64(1 + len(more)), 1, 0} {
		head = le.AppendUint64(head, n)
	}
	at := uint64(goHeader)
	for _, p := range parts {
		head = le.AppendUint64(head, at)
		at += uint64(len(p))
	}
	return slices.Concat(append([][]byte{head}, parts...)...)
}

// Values begin at -1. Differences of values are zigzag.
var (
	oneFile  = []byte{2, 9, 0}             // file 0 for places 0 to 8
	twoLines = []byte{22, 3, 4, 4, 0}      // line 10 for places 0 to 2, line 12 for 3 to 6
	noEnd    = []byte{22, 3, 0x80, 0x80}   // a number that does not end
	backward = []byte{22, 3, 21, 2, 21, 2} // to line 0 and below
)

func TestGoTable(t *testing.T) {
	here := func(from, to, line int) placed { return placed{from, to, position{file: "p/a.go", line: line}} }
	for _, test := range []struct {
		name, file   string
		files, lines []byte
		want         []placed
	}{
		{"two lines", "p/a.go", oneFile, twoLines, []placed{here(0, 3, 10), here(3, 7, 12)}},
		{"a path to clean", "p/x/../a.go", oneFile, twoLines, []placed{here(0, 3, 10), here(3, 7, 12)}},
		{"another file behind", "p/a.go", []byte{2, 2, 200, 1, 0}, twoLines, []placed{here(0, 2, 10)}},
		{"a number that does not end", "p/a.go", oneFile, noEnd, []placed{here(0, 3, 10)}},
		{"no such line", "p/a.go", oneFile, backward, []placed{here(0, 3, 10)}},
		{"a name over two lines", "p/a.go\nSF:b.go", oneFile, twoLines, nil},
		{"no name", "", oneFile, twoLines, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			memory := slices.Concat(make([]byte, 64), tableOf("main.f", test.file, test.files, test.lines))
			table := findGoTable(memory, 1)
			if table == nil {
				t.Fatal("not found")
			}
			f, ok := table.function(0)
			if !ok || f.name != "main.f" || f.body != 0 {
				t.Fatalf("%+v %v", f, ok)
			}
			if got := table.lines(f); !slices.Equal(got, test.want) {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestGoTableIsNotFound(t *testing.T) {
	good := tableOf("main.f", "p/a.go", oneFile, twoLines)
	change := func(at int, to byte) []byte {
		b := slices.Clone(good)
		b[at] = to
		return b
	}
	for name, memory := range map[string][]byte{
		"nothing": nil, "cut in the header": good[:goHeader-1], "cut behind the header": good[:goHeader], "odd address": append([]byte{0}, good...),
		"another number": change(0, 0xf0), "more functions than bodies": change(8, 2), "no functions": change(8, 0), "a part behind the end": change(64+6, 1),
		"parts in another order": change(32, 200),
	} {
		if findGoTable(memory, 1) != nil {
			t.Errorf("%s: a table", name)
		}
	}
}

// Go up to 1.25 has addresses where newer releases have numbers.
func TestGoTableOfAddresses(t *testing.T) {
	memory := tableOf("main.f", "p/a.go", oneFile, twoLines, "main.g", "main.h")
	funcs := memory[binary.LittleEndian.Uint64(memory[64:]):]
	for i := range 3 {
		binary.LittleEndian.PutUint32(funcs[i*goEntry:], uint32(firstFunction+i)<<16)
	}
	table := findGoTable(memory, 3)
	for i, name := range []string{"main.f", "main.g", "main.h"} {
		if f, ok := table.function(i); !ok || f.name != name || f.body != i {
			t.Errorf("%d: %+v %v", i, f, ok)
		}
	}
}

func TestGoPlaces(t *testing.T) {
	type of [2]int
	for name, test := range map[string]struct {
		targets []byte
		want    []of
	}{
		"one place each": {[]byte{2, 0, 1, 2}, []of{{0, 1}, {1, 2}, {2, maxPlace}}},
		"several places": {[]byte{5, 0, 0, 0, 1, 1, 2}, []of{{0, 3}, {3, 5}, {5, maxPlace}}},
		"the last again": {[]byte{2, 0, 1, 1}, []of{{0, 1}, {1, maxPlace}}},
		"a gap":          {[]byte{2, 0, 2, 3}, nil},
		"backwards":      {[]byte{2, 0, 1, 0}, nil},
		"cut":            {[]byte{4, 0, 1}, nil},
		"nothing":        {nil, nil},
	} {
		var got []of
		for _, p := range places(test.targets) {
			got = append(got, of{p.from, p.to})
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// goModule is a module with a function of three parts, the first with a branch in it and the second with a call at its end, another that
// is called there, and a line table in its memory.
func goModule(callee string) []byte {
	section := func(id byte, content ...byte) []byte {
		return append(binary.AppendUvarint([]byte{id}, uint64(len(content))), content...)
	}
	f := slices.Concat([]byte{1, 1, 0x7f}, // one more local
		[]byte{opGlobalGet, 0, opLocalSet, 1, opLoop, 0x40, opBlock, 0x40, opBlock, 0x40, opBlock, 0x40, opLocalGet, 0, opBrTable, 3, 0, 0, 1, 2, opEnd},
		[]byte{opLocalGet, 1, opIf, 0x40, opI32Const, 3, opLocalSet, 0, opBr, 3, opEnd, opI32Const, 2, opLocalSet, 0, opBr, 2, opEnd}, // part 0
		[]byte{opI32Const, 0, opCall, 1, opGlobalGet, 0, opLocalSet, 1, opBrIf, 1, opEnd},                                             // part 1
		[]byte{opLocalGet, 1, 0x0f, opEnd, opUnreachable, opEnd})                                                                      // part 2, a return
	g := []byte{0, opI32Const, 0, opEnd}
	bodies := []byte{2}
	for _, b := range [][]byte{f, g} {
		bodies = append(append(bodies, byte(len(b))), b...)
	}
	table := tableOf("main.f", "p/a.go", []byte{2, 9, 0}, []byte{22, 1, 2, 1, 2, 1, 2, 1, 0}, callee)
	data := append(binary.AppendUvarint([]byte{1, 0, opI32Const, 8, opEnd}, uint64(len(table))), table...)
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), section(1, 1, 0x60, 1, 0x7f, 1, 0x7f), section(3, 2, 0, 0), section(5, 1, 0, 1),
		section(6, 1, 0x7f, 1, opI32Const, 0, opEnd), section(10, bodies...), section(11, data...))
}

func TestGoLines(t *testing.T) {
	const part0, part1, part2 = 26, 44, 55 // where they begin in the content of the code section
	first := []row{at(part0, part0+3, "p/a.go", 10), at(part0, part0+3, "p/a.go", 11)}
	for callee, want := range map[string][]row{
		// The jumps at the end of part 0 are no code of a line.
		"main.g":             append(slices.Clone(first), at(part1, part1+10, "p/a.go", 12), at(part2, part2+3, "p/a.go", 13)),
		"runtime.panicIndex": first,
	} {
		s, err := Read(goModule(callee))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(s.rows, want, func(a, b row) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			t.Errorf("%s: %+v, want %+v", callee, s.rows, want)
		}
	}
}

// FuzzGoTable feeds any memory to the reader of the runtime's table.
func FuzzGoTable(f *testing.F) {
	good := tableOf("main.f", "p/a.go", oneFile, twoLines)
	f.Add(good)
	f.Add(append(make([]byte, 8), good...))
	f.Add(tableOf("main.f", "p/a.go", oneFile, noEnd))
	f.Add(tableOf("main.f", "p/a.go", []byte{2, 2, 200, 1, 0}, backward))
	f.Fuzz(func(t *testing.T, memory []byte) {
		table := findGoTable(memory, 3)
		if table == nil {
			return
		}
		for i := range table.count {
			fn, ok := table.function(i)
			if !ok {
				continue
			}
			end := 0
			for _, l := range table.lines(fn) {
				if l.from < end || l.to <= l.from || l.to > 2*maxPlace || l.line < 1 || l.file == "" || printable(l.file) == "" {
					t.Fatalf("%+v behind %d", l, end)
				}
				end = l.to
			}
		}
	})
}

// FuzzGoPlaces feeds any targets of a jump.
func FuzzGoPlaces(f *testing.F) {
	f.Add([]byte{5, 0, 0, 0, 1, 1, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		end := 0
		for _, p := range places(data) {
			if p.from != end || p.to <= p.from {
				t.Fatalf("%+v behind %d", p, end)
			}
			end = p.to
		}
	})
}
