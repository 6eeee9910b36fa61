package cover

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/host/policy/meter"
)

// marker begins the names of the functions that Instrument adds.
const marker = "flynnRan"

// Statements counts the statements of Go source. Neither Go's linker nor its optimiser leaves enough in a module to tell its lines apart, but
// every function has a name there. Instrument therefore gives each statement a function of its own to call, and Report takes the calls of that
// function for the runs of the statement.
type Statements struct {
	functions []string // the author's, and one for each other declaration
	marks     []mark
}

// mark is a place in the source. Its number is part of the name of the function that is called there.
type mark struct {
	position     // line 0 where a function begins
	function int // in functions
}

// Instrument returns the text of a Go file in which each statement calls its function first. The lines keep their numbers. The function main of
// package main is left out, because a library never runs it.
func (s *Statements) Instrument(file string, source []byte) ([]byte, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	e := &editor{Statements: s, files: files, file: file, first: len(s.marks)}
	for _, d := range parsed.Decls {
		name := "init" // of variables
		if f, ok := d.(*ast.FuncDecl); ok {
			if name = receiver(f) + f.Name.Name; f.Body == nil || parsed.Name.Name == "main" && name == "main" {
				continue
			}
		}
		s.functions = append(s.functions, parsed.Name.Name+"."+name)
		if f, ok := d.(*ast.FuncDecl); ok {
			e.mark(f.Body.Lbrace+1, "", 0)
		}
		ast.Inspect(d, e.visit)
	}
	return e.apply(source), nil
}

// receiver is "T." or "(*T)." of a method.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return ""
	}
	t, form := f.Recv.List[0].Type, "T."
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t, form = x.X, "(*T)."
		case *ast.ParenExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return strings.Replace(form, "T", x.Name, 1)
		default:
			return ""
		}
	}
}

// editor gathers what is inserted into one file.
type editor struct {
	*Statements
	files *token.FileSet
	file  string
	first int // mark of the file
	edits []edit
}

type edit struct {
	at   int // offset
	text string
}

func (e *editor) insert(at token.Pos, text string) {
	e.edits = append(e.edits, edit{e.files.PositionFor(at, false).Offset, text})
}

// mark inserts a call, behind what has to stand before it.
func (e *editor) mark(at token.Pos, before string, line int) {
	e.insert(at, before+marker+strconv.Itoa(len(e.marks))+"();")
	e.marks = append(e.marks, mark{position{file: e.file, line: line}, len(e.functions) - 1})
}

func (e *editor) line(at token.Pos) int { return e.files.PositionFor(at, false).Line }

func (e *editor) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BlockStmt:
		if n != nil {
			e.list(n.List)
		}
	case *ast.CaseClause:
		e.list(n.Body)
	case *ast.CommClause:
		e.list(n.Body)
	case *ast.IfStmt:
		if other, ok := n.Else.(*ast.IfStmt); ok { // stands in no list, so that it gets a block
			e.mark(other.Pos(), "{", e.line(other.Pos()))
			e.insert(other.End(), "}")
		}
	}
	return true
}

func (e *editor) list(list []ast.Stmt) {
	for _, s := range list {
		switch inner := s.(type) {
		case *ast.EmptyStmt, *ast.CaseClause, *ast.CommClause: // no code, and lists of their own
		case *ast.BranchStmt:
			if inner.Tok != token.FALLTHROUGH { // no code either
				e.mark(s.Pos(), "", e.line(s.Pos()))
			}
		case *ast.LabeledStmt:
			e.mark(s.Pos(), "", e.line(inner.Stmt.Pos()))
		default:
			e.mark(s.Pos(), "", e.line(s.Pos()))
		}
	}
}

// apply returns the source with the calls and the functions that they call.
func (e *editor) apply(source []byte) []byte {
	slices.SortStableFunc(e.edits, func(a, b edit) int { return a.at - b.at })
	var out []byte
	done := 0
	for _, c := range e.edits {
		out = append(append(out, source[done:c.at]...), c.text...)
		done = c.at
	}
	out = append(append(out, source[done:]...), '\n')
	for n := e.first; n < len(e.marks); n++ {
		out = append(out, "//go:noinline\nfunc "+marker+strconv.Itoa(n)+"() {}\n"...)
	}
	return out
}

// Report reports on the module that was built from the instrumented files. Its blocks are statements. Functions that the linker has left out,
// because nothing calls them, have not run.
func (s *Statements) Report(wasm []byte, blocks []meter.Block, counts []uint64) (Report, error) {
	module, err := Read(wasm)
	if err != nil {
		return Report{}, err
	}
	runs := make([]uint64, len(s.marks))
	for i, b := range blocks {
		if i > 0 && b.Function == blocks[i-1].Function {
			continue // a call runs the first block
		}
		_, number, _ := strings.Cut(module.names[b.Function], "."+marker)
		if n, err := strconv.Atoi(number); err == nil && n < len(runs) {
			runs[n] = counts[i]
		}
	}
	source := &Source{names: map[int]string{}}
	statements := make([]meter.Block, len(s.marks))
	for n, m := range s.marks {
		source.names[m.function] = s.functions[m.function]
		statements[n] = meter.Block{Function: m.function, Start: n, End: n + 1}
		if m.line > 0 {
			source.rows = append(source.rows, row{start: n, end: n + 1, position: m.position})
		}
	}
	return source.Report(statements, runs, Own{File: func(string) bool { return true }}), nil
}
