package cover

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/flynnhost/flynn/host/policy/meter"
)

// Report says what has run of the author's own code, unless a field says otherwise.
type Report struct {
	Total
	Lines     *Total     `json:"lines,omitempty"` // nil where lines are not known
	Module    Total      `json:"module"`          // blocks of the whole module, its runtime included
	Functions []Function `json:"functions"`
	Files     []File     `json:"files,omitempty"`
	Uncovered []Place    `json:"uncovered,omitempty"`
	Note      string     `json:"note,omitempty"` // why lines are not known, where that needs saying
}

// Total counts things, most often basic blocks, and those of them that ran.
type Total struct {
	Blocks  int     `json:"blocks"`
	Covered int     `json:"covered"`
	Percent float64 `json:"percent"`
}

func (t *Total) add(ran bool) {
	t.Blocks++
	if ran {
		t.Covered++
	}
	t.Percent = 100 * float64(t.Covered) / float64(t.Blocks)
}

// Function is one function of the module. Calls that were inlined are counted with the caller.
type Function struct {
	Name  string `json:"name"`
	File  string `json:"file,omitempty"`
	Line  int    `json:"line,omitempty"`
	Calls uint64 `json:"calls"`
	Total
	nameless bool
}

// File is one file of the source.
type File struct {
	Name  string `json:"name"`
	Total        // blocks
	Lines []Line `json:"lines"`
}

// Line is a line with code.
type Line struct {
	Line  int    `json:"line"`
	Count uint64 `json:"count"` // of the block that ran most often, those of functions inlined here included
	Total        // blocks of the line itself
}

// Place is code that has not run: lines of a file, or a function.
type Place struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	EndLine  int    `json:"end_line,omitempty"` // the last of several
	Function string `json:"function,omitempty"`
	Nameless bool   `json:"nameless,omitempty"` // the module has no name for the function, only a number
	Total
}

// String returns text like "policy.c:12-14", "policy.c:20 (1 of 3 blocks)" or "main.f (2 of 9 blocks)".
func (p Place) String() string {
	s := p.at()
	if p.Covered > 0 {
		s += fmt.Sprintf(" (%d of %d blocks ran)", p.Covered, p.Blocks)
	}
	return s
}

func (p Place) at() string {
	switch {
	case p.EndLine > p.Line:
		return fmt.Sprintf("%s:%d-%d", p.File, p.Line, p.EndLine)
	case p.File != "":
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return p.Function
}

// Report joins the source with counts, one for each block.
func (s *Source) Report(blocks []meter.Block, counts []uint64, own Own) Report {
	c := &collector{source: s, own: own, byLine: s.knows(own), files: map[string]map[int]*Line{}, perFile: map[string]*Total{}}
	for i := range blocks {
		c.report.Module.add(counts[i] > 0)
	}
	for i, b := range blocks {
		if i == 0 || b.Function != blocks[i-1].Function {
			c.function = nil
		}
		c.block(b, counts[i])
	}
	return c.finish()
}

// Own reports for each block whether some of it is the author's. If none is, all are.
func (s *Source) Own(blocks []meter.Block, own Own) []bool {
	mine, some, byLine := make([]bool, len(blocks)), false, s.knows(own)
	for i, b := range blocks {
		if byLine {
			mine[i] = len(own.files(s.positions(b))) > 0
		} else {
			mine[i] = own.Function == nil || own.Function(s.function(b.Function))
		}
		some = some || mine[i]
	}
	if !some {
		for i := range mine {
			mine[i] = true
		}
	}
	return mine
}

// collector builds a report block by block.
type collector struct {
	source   *Source
	own      Own
	byLine   bool
	report   Report
	function *Function // of the last block, if it is the author's
	calls    uint64    // of the function
	files    map[string]map[int]*Line
	perFile  map[string]*Total
}

func (c *collector) block(b meter.Block, count uint64) {
	if c.function == nil {
		c.calls = count
	}
	at := position{}
	if c.byLine {
		list := c.own.files(c.source.positions(b))
		if len(list) == 0 {
			c.begin(b)
			return
		}
		at = list[0]
		c.lines(list, count)
	} else if name := c.source.function(b.Function); c.own.Function != nil && !c.own.Function(name) {
		return
	}
	c.begin(b)
	f := c.function
	if f.Blocks == 0 {
		f.File, f.Line = at.file, at.line
	}
	f.add(count > 0)
	c.report.add(count > 0)
}

// begin starts the function of a block, whether or not the author wrote its first block.
func (c *collector) begin(b meter.Block) {
	if c.function != nil {
		return
	}
	c.report.Functions = append(c.report.Functions, Function{Name: c.source.function(b.Function), Calls: c.calls, nameless: c.source.names[b.Function] == ""})
	c.function = &c.report.Functions[len(c.report.Functions)-1]
}

// lines counts a block for each of its lines.
func (c *collector) lines(list []position, count uint64) {
	seen := map[string]bool{}
	for i, p := range list {
		if c.files[p.file] == nil {
			c.files[p.file], c.perFile[p.file] = map[int]*Line{}, &Total{}
		}
		l := c.files[p.file][p.line]
		if l == nil {
			l = &Line{Line: p.line}
			c.files[p.file][p.line] = l
		}
		l.Count = max(l.Count, count)
		if !p.caller || i == 0 {
			l.add(count > 0)
		}
		if !seen[p.file] {
			seen[p.file] = true
			c.perFile[p.file].add(count > 0)
		}
	}
}

func (c *collector) finish() Report {
	r := c.report
	r.Functions = slices.DeleteFunc(r.Functions, func(f Function) bool { return f.Blocks == 0 })
	if !c.byLine {
		for _, f := range r.Functions {
			if f.Covered < f.Blocks {
				r.Uncovered = append(r.Uncovered, Place{Function: f.Name, Nameless: f.nameless, Total: f.Total})
			}
		}
		return r
	}
	r.Lines = &Total{}
	for name, lines := range c.files {
		f := File{Name: name, Total: *c.perFile[name]}
		for _, l := range lines {
			f.Lines = append(f.Lines, *l)
			r.Lines.add(l.Count > 0)
		}
		slices.SortFunc(f.Lines, func(a, b Line) int { return cmp.Compare(a.Line, b.Line) })
		r.Files = append(r.Files, f)
	}
	slices.SortFunc(r.Files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range r.Files {
		r.Uncovered = append(r.Uncovered, f.uncovered()...)
	}
	return r
}

// uncovered returns the places of a file that have not run. Neighbouring lines of which nothing has run are one place.
func (f *File) uncovered() []Place {
	var list []Place
	joining := false
	for _, l := range f.Lines {
		switch {
		case l.Count > 0 && l.Covered == l.Blocks:
			joining = false
		case l.Count > 0:
			list, joining = append(list, Place{File: f.Name, Line: l.Line, Total: l.Total}), false
		case joining:
			last := &list[len(list)-1]
			last.EndLine = l.Line
			last.Blocks += max(l.Blocks, 1)
		default:
			list, joining = append(list, Place{File: f.Name, Line: l.Line, Total: Total{Blocks: max(l.Blocks, 1)}}), true
		}
	}
	return list
}
