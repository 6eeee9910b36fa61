// Package cover tells which places of a policy's source have run, for a module in any language: the very module that ships.
//
// Start with Read, which finds out what the module itself says of its source, and Source.Report, which puts the counts of a
// run beside it. The engine counts basic blocks (policy.Config.CountBlocks). A block belongs to the lines that are known for its
// instructions: from DWARF (C, Rust), from the line table of Go's runtime, with ReadMapped from a source map (AssemblyScript), or with
// ReadListed from a listing of Go's compiler. Without, it belongs to a function of the name section, and without that to a number.
//
// The package only reads: a module comes from anywhere, so what it says of itself is bounded and may be wrong, and a report is
// for people. It decides nothing.
package cover

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/flynnhost/flynn/host/policy/meter"
)

// Source is what a module says of its source.
type Source struct {
	names   map[int]string // of functions
	rows    []row          // by address
	listed  bool           // each row is of its line and nothing else, so that a report counts lines instead of blocks
	dropped []meter.Block  // of a listing, but not of the module
}

// row gives a stretch of code, by its offsets in the code section, to a line.
type row struct {
	start, end int
	position
	callers []position // where inlined code was called from, the innermost first
}

// position is a line of a file.
type position struct {
	file string
	line int
	// caller is of code that was inlined into this line.
	caller bool
}

// Read looks for names and lines in a module that the meter has accepted.
func Read(wasm []byte) (*Source, error) {
	sections, err := meter.Sections(wasm)
	if err != nil {
		return nil, err
	}
	s := &Source{}
	debug := map[string][]byte{}
	for _, c := range sections {
		switch {
		case c.Name == "name":
			s.names = meter.FunctionNames(c.Data)
		case strings.HasPrefix(c.Name, ".debug_"):
			debug[c.Name] = c.Data
		}
	}
	if s.rows = dwarfRows(debug); s.HasLines() {
		return s, nil
	}
	if module, err := meter.Look(wasm); err == nil {
		s.rows = goRows(module)
	}
	return s, nil
}

// HasLines reports whether lines are known.
func (s *Source) HasLines() bool { return len(s.rows) > 0 }

// tells is whether lines of the author's are known. They are not where the author's files have names that say nothing of the folder.
func (s *Source) tells(own Own) bool {
	mine := func(p position) bool {
		_, mine := own.file(p.file)
		return mine
	}
	// All that the author wrote may have been inlined calls of what others wrote.
	return slices.ContainsFunc(s.rows, func(r row) bool { return mine(r.position) || slices.ContainsFunc(r.callers, mine) })
}

// function is the name of a function, or its number.
func (s *Source) function(index int) string {
	if name := s.names[index]; name != "" {
		return name
	}
	return fmt.Sprintf("function %d", index)
}

// positions are the lines of a block, in the order of its code. Code that was inlined is of the lines that called it, too.
func (s *Source) positions(b meter.Block) []position {
	// Rows do not overlap, so that the first of a block is the last that begins before its end or the one behind it.
	at := sort.Search(len(s.rows), func(i int) bool { return s.rows[i].end > b.Start })
	var list []position
	add := func(p position) {
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	for _, r := range s.rows[at:] {
		if r.start >= b.End {
			break
		}
		add(r.position)
		for _, p := range r.callers {
			add(p)
		}
	}
	return list
}

// Own says what the policy's author wrote. Everything else is of a runtime, a library or an SDK, which the author need not test.
type Own struct {
	Below    string                 // where lines are known: how the names of files begin that File is asked for. Reports leave it out
	File     func(name string) bool // where lines are known
	Function func(name string) bool // where they are not; nil is every function
}

// file is the author's name of a file, if it is the author's.
func (o Own) file(name string) (string, bool) {
	name, ok := strings.CutPrefix(name, o.Below)
	return name, ok && o.File(name)
}

// files are those positions of a list that are the author's, under the author's names.
func (o Own) files(list []position) (mine []position) {
	for _, p := range list {
		if name, ok := o.file(p.file); ok {
			p.file = name
			mine = append(mine, p)
		}
	}
	return mine
}

// InFolder is the author's part of a module whose debug information names files by their path from the policy's folder: what
// lies in it and is none of the others, which are names of files, and folders with a slash behind.
func InFolder(others ...string) func(string) bool {
	return func(file string) bool {
		if path.IsAbs(file) || strings.HasPrefix(file, "../") || strings.HasPrefix(file, "~") {
			return false
		}
		return !slices.ContainsFunc(others, func(o string) bool {
			if strings.HasSuffix(o, "/") {
				return strings.HasPrefix(file, o)
			}
			return file == o || path.Base(file) == o
		})
	}
}
