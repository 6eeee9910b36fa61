package cover

import (
	"maps"
	"slices"
	"sort"

	"github.com/flynnhost/flynn/host/policy/meter"
)

// ReadListed is Read for a module that Go's compiler has made, with the compiler's own listing of it. A function that has another code than
// the listing says is named; its lines are those that Read has.
//
// The lines are as exact as the compiler is. The optimiser moves code between lines, and leaves lines without any: with -N -l it does not, and
// each line has code that is run when the line is.
func ReadListed(wasm []byte, listing *Listing) (s *Source, others []string, err error) {
	if s, err = Read(wasm); err != nil {
		return nil, nil, err
	}
	module, err := meter.Look(wasm)
	if err != nil {
		return nil, nil, err
	}
	r := newGoReader(module)
	if r == nil {
		return s, nil, ErrNoLines
	}
	encoder := newEncoder()
	if s.names == nil {
		s.names = map[int]string{}
	}
	s.rows = r.read(func(f goFunction) {
		s.names[r.module.Imports()+f.body] = f.name // the linker's own has underscores in it
		if _, known := listing.functions[f.name]; !known {
			return
		}
		if !r.listedFunction(f, listing, encoder) {
			others = append(others, f.name)
			r.function(f)
		}
	})
	s.listed = true
	s.addDropped(r, listing)
	return s, others, nil
}

// addDropped gives the functions that the linker has left out, because nothing calls them, code behind that of the module: it never runs.
func (s *Source) addDropped(r *goReader, listing *Listing) {
	here := map[string]bool{neverRun: true}
	for _, f := range r.functions {
		here[f.name] = true
	}
	last := r.module.Body(r.module.Bodies() - 1)
	at, number := last.At+len(last.Code), last.Function
	for _, name := range slices.Sorted(maps.Keys(listing.functions)) {
		if here[name] {
			continue
		}
		number++
		start := at
		for _, in := range listing.functions[name][0] {
			if in.line > 0 && len(s.rows) < maxRows {
				s.rows = append(s.rows, row{start: at, end: at + 1, position: in.position})
				at++
			}
		}
		s.names[number] = name
		s.dropped = append(s.dropped, meter.Block{Function: number, Start: start, End: at})
	}
}

// listedFunction appends the rows of a function that the listing has. Of several with one name it is the one whose code it has.
func (r *goReader) listedFunction(f goFunction, listing *Listing, encoder encoder) bool {
	if !r.instructions(f) {
		return false
	}
	for _, list := range listing.functions[f.name] {
		if lines, ok := encoder.align(list, r.code); ok {
			r.placeListed(r.module.Body(f.body), lines)
			return true
		}
	}
	return false
}

// placeListed gives the code of a function, but for the machinery, the lines of its instructions. A part that is only a jump is a row of its
// line where the line has no other code, such as one with continue. What follows on machinery counts: the return statement behind
// the deferred calls does.
func (r *goReader) placeListed(body meter.Body, lines []position) {
	var jumps []row
	first := len(r.rows)
	for n, p := range r.parts(body) {
		for i, s := range p.stretches {
			switch {
			case p.machinery, n == 0 && i == 0 && r.checksStack(body, s):
			case s.jump:
				jumps = append(jumps, r.listedRows(nil, body.At, s, lines)...)
			case s.real && len(r.rows) < maxRows:
				r.rows = r.listedRows(r.rows, body.At, s, lines)
			}
		}
	}
	own := r.rows[first:]
	for _, j := range jumps {
		if !slices.ContainsFunc(own, func(o row) bool { return o.position == j.position }) {
			r.rows = append(r.rows, j)
		}
	}
}

// checksStack tells of the first stretch of a function whether it looks if there is room on the stack: it is entered again when some was made.
func (r *goReader) checksStack(body meter.Body, s stretch) bool {
	const goroutine = 2 // the number of its global
	return slices.ContainsFunc(r.code, func(in meter.Instruction) bool {
		return in.At >= s.start && in.At+1 < s.end && in.Op == opGlobalGet && body.Code[in.At+1] == goroutine
	})
}

// listedRows appends the rows of one stretch.
func (r *goReader) listedRows(rows []row, at int, s stretch, lines []position) []row {
	first := sort.Search(len(r.code), func(i int) bool { return r.code[i].At >= s.start })
	begin := len(rows)
	for i := first; i < len(r.code) && r.code[i].At < s.end; i++ {
		end := s.end
		if i+1 < len(r.code) {
			end = min(end, r.code[i+1].At)
		}
		if lines[i].line == 0 {
			continue
		}
		if n := len(rows); n > begin && rows[n-1].position == lines[i] && rows[n-1].end == at+r.code[i].At {
			rows[n-1].end = at + end
			continue
		}
		rows = append(rows, row{start: at + r.code[i].At, end: at + end, position: lines[i]})
	}
	return rows
}

// byLine makes one block of all code that a function has of one line. The compiler makes many of one comparison of strings, and that it found
// two unequal at their second byte says nothing of the cases. The count is that of the code that ran most often. Each function begins with
// an empty block that counts its calls, which are those of its first line.
func (s *Source) byLine(blocks []meter.Block, counts []uint64) (lines []meter.Block, runs []uint64) {
	rows := s.rows
	at := map[position]int{}
	entry := 0
	blocks, counts = slices.Concat(blocks, s.dropped), slices.Concat(counts, make([]uint64, len(s.dropped)))
	for i, b := range blocks {
		if i == 0 || b.Function != blocks[i-1].Function {
			clear(at)
			entry = len(lines)
			lines, runs = append(lines, meter.Block{Function: b.Function, Start: b.Start, End: b.Start}), append(runs, 0)
		}
		for len(rows) > 0 && rows[0].end <= b.Start {
			rows = rows[1:]
		}
		for j := 0; j < len(rows) && rows[j].start < b.End; j++ {
			if known, ok := at[rows[j].position]; ok {
				runs[known] = max(runs[known], counts[i])
				continue
			}
			if len(at) == 0 {
				runs[entry] = counts[i]
			}
			at[rows[j].position] = len(lines)
			lines = append(lines, meter.Block{Function: b.Function, Start: max(rows[j].start, b.Start), End: min(rows[j].end, b.End)})
			runs = append(runs, counts[i])
		}
	}
	return lines, runs
}
