package cover

import (
	"cmp"
	"debug/dwarf"
	"path"
	"slices"
	"sort"
)

// maxRows bounds the rows of a module, which may say a lot in few bytes.
const maxRows = 4 << 20

// dwarfRows reads the line tables of debug information, whose addresses are offsets in the code section. It leaves out
// what it cannot read.
func dwarfRows(debug map[string][]byte) (rows []row) {
	if len(debug[".debug_line"]) == 0 {
		return nil
	}
	// The bytes come from anywhere, and package dwarf may panic on them.
	defer func() {
		if recover() != nil {
			rows = nil
		}
	}()
	d, err := dwarf.New(debug[".debug_abbrev"], nil, nil, debug[".debug_info"], debug[".debug_line"], nil, debug[".debug_ranges"], debug[".debug_str"])
	if err != nil {
		return nil
	}
	for _, name := range []string{".debug_addr", ".debug_line_str", ".debug_str_offsets", ".debug_rnglists"} {
		if err := d.AddSection(name, debug[name]); err != nil {
			return nil
		}
	}
	var calls []call
	units := d.Reader()
	var files []*dwarf.LineFile
	for {
		e, err := units.Next()
		if err != nil || e == nil {
			break
		}
		switch e.Tag {
		case dwarf.TagCompileUnit:
			files = nil
			if lines, err := d.LineReader(e); err == nil && lines != nil {
				rows = unitRows(rows, lines)
				files = lines.Files()
			}
		case dwarf.TagInlinedSubroutine:
			calls = inlined(calls, d, e, files)
		}
		if len(rows) >= maxRows || len(calls) >= maxRows {
			break
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.start, b.start) })
	giveCallers(rows, calls)
	return rows
}

// call is a stretch of code that was inlined, and the line that called it.
type call struct {
	start, end int
	position
}

// inlined appends the stretches of one inlined call.
func inlined(calls []call, d *dwarf.Data, e *dwarf.Entry, files []*dwarf.LineFile) []call {
	file, _ := e.Val(dwarf.AttrCallFile).(int64)
	line, _ := e.Val(dwarf.AttrCallLine).(int64)
	if file <= 0 || int(file) >= len(files) || files[file] == nil || line <= 0 || line > 1<<30 {
		return calls
	}
	ranges, err := d.Ranges(e)
	if err != nil {
		return calls
	}
	for _, r := range ranges {
		if r[0] < r[1] && r[1] < 1<<31 {
			calls = append(calls, call{int(r[0]), int(r[1]), position{path.Clean(files[file].Name), int(line), true}})
		}
	}
	return calls
}

// giveCallers adds the lines that called its code to each row. The calls of a unit come outermost first.
func giveCallers(rows []row, calls []call) {
	room := maxRows
	for _, c := range slices.Backward(calls) {
		at := sort.Search(len(rows), func(i int) bool { return rows[i].start >= c.start })
		for ; at < len(rows) && rows[at].start < c.end && room > 0; at++ {
			rows[at].callers = append(rows[at].callers, c.position)
			room--
		}
	}
}

// unitRows appends the rows of one unit. Its table has a sequence for each function. The sequence of a function that the linker
// has dropped begins at 0 or at the end of all addresses, where no function is.
func unitRows(rows []row, lines *dwarf.LineReader) []row {
	var last dwarf.LineEntry
	open, dropped := false, false
	for len(rows) < maxRows {
		var e dwarf.LineEntry
		if err := lines.Next(&e); err != nil {
			return rows
		}
		if !open {
			dropped = e.Address == 0 || e.Address >= 1<<31
		}
		if open && !dropped && last.Line > 0 && last.File != nil && e.Address > last.Address && e.Address < 1<<31 {
			rows = append(rows, row{start: int(last.Address), end: int(e.Address), position: position{path.Clean(last.File.Name), last.Line, false}})
		}
		last, open = e, !e.EndSequence
	}
	return rows
}
