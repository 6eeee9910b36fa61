// Package cover reports which lines of a policy's source have run.
//
// Start with Read, which reads what a module says about its source, and Source.Report, which joins that with the counts of a
// run. The engine counts basic blocks (policy.Config.CountBlocks). A block belongs to the lines that are known for its
// instructions: from DWARF (C, Rust), or with ReadMapped from a source map (AssemblyScript). Without lines it belongs to a function of the
// name section, and without a name to the function's number. A module in Go has no lines; Statements counts those of its source.
//
// A module may come from anywhere. Its statements about itself are bounded and may be wrong; reports are for people, and the package
// decides nothing.
package cover

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/flynnhost/flynn/host/policy/meter"
)

// Source is what a module says about its source.
type Source struct {
	names map[int]string // of functions
	rows  []row          // by address
}

// row assigns a stretch of code, by its offsets in the code section, to a line.
type row struct {
	start, end int
	position
	callers []position // where inlined code was called from, the innermost first
}

// position is a line of a file.
type position struct {
	file   string
	line   int
	caller bool // the code was inlined into this line
}

// Read reads the names and lines of a module that the meter has accepted.
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
	s.rows = dwarfRows(debug)
	return s, nil
}

// HasLines reports whether lines are known.
func (s *Source) HasLines() bool { return len(s.rows) > 0 }

// knows reports whether the module names a line of the author's.
func (s *Source) knows(own Own) bool {
	mine := func(p position) bool { return own.File(p.file) }
	// The author's code may be nothing but inlined calls of other people's code.
	return slices.ContainsFunc(s.rows, func(r row) bool { return mine(r.position) || slices.ContainsFunc(r.callers, mine) })
}

// function returns the name of a function, or "function N".
func (s *Source) function(index int) string {
	if name := s.names[index]; name != "" {
		return name
	}
	return fmt.Sprintf("function %d", index)
}

// positions returns the lines of a block, in the order of its code. Inlined code also belongs to the lines that called it.
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

// Own says which code the policy's author wrote, as opposed to a runtime, a library or an SDK.
type Own struct {
	File     func(name string) bool // where lines are known
	Function func(name string) bool // where they are not; nil is every function
}

// files returns those of the positions that are in the author's files.
func (o Own) files(list []position) []position {
	return slices.DeleteFunc(list, func(p position) bool { return !o.File(p.file) })
}

// InFolder returns a function for Own.File where files are named by their path from the policy's folder. It accepts what lies
// in the folder and is none of others, which are names of files, or of folders with a slash at the end.
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
