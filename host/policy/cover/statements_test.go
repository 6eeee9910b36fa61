package cover

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/policy/meter"
)

const statements = `package main

var pick = func(n int) int { return n }

type shape[T any] struct{}

func (s *shape[T]) sides() int {
outer:
	for {
		switch {
		case pick(1) > 0:
			break outer
		}
		select {
		default:
			continue
		}
	}
	if pick(2) > 1 {
		return 2
	} else if pick(3) > 1 {
		return 3
	} else {
		return 4
	}
}

func outside() int

func main() { pick(7) }`

func TestInstrument(t *testing.T) {
	s := &Statements{}
	if text, err := s.Instrument("a.go", []byte("package main\n\nfunc init() {}\n")); err != nil || !strings.HasPrefix(string(text), "package main\n\nfunc init() {flynnRan0();}\n") {
		t.Fatalf("%s: %v", text, err)
	}
	text, err := s.Instrument("b.go", []byte(statements))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", text, 0); err != nil {
		t.Errorf("%v:\n%s", err, text)
	}
	lines := strings.Split(string(text), "\n")
	for number, want := range map[int]string{
		3:  "var pick = func(n int) int { flynnRan1();return n }",
		7:  "func (s *shape[T]) sides() int {flynnRan2();",
		8:  "flynnRan3();outer:",
		10: "\t\tflynnRan5();switch {",
		11: "\t\tcase pick(1) > 0:",
		12: "\t\t\tflynnRan7();break outer",
		16: "\t\t\tflynnRan8();continue",
		21: "\t} else {flynnRan9();if pick(3) > 1 {",
		25: "\t}}",
		30: "func main() { pick(7) }",
		32: "func flynnRan1() {}",
	} {
		if lines[number-1] != want {
			t.Errorf("line %d is %q, want %q", number, lines[number-1], want)
		}
	}
	if want := []string{"main.init", "main.init", "main.init", "main.(*shape).sides"}; !slices.Equal(s.functions, want) {
		t.Errorf("functions %q, want %q", s.functions, want)
	}
	if at := s.marks[3]; at.line != 9 || at.file != "b.go" {
		t.Errorf("the loop is at %+v", at)
	}
	if _, err := s.Instrument("c.go", []byte("package")); err == nil {
		t.Error("half a file is taken")
	}
}

// Each function of the module that a statement calls is one count; one that the linker has dropped is none.
func TestReportOfStatements(t *testing.T) {
	s := &Statements{}
	if _, err := s.Instrument("a.go", []byte("package main\n\nfunc f() {\n\tprintln(1); println(2)\n\tprintln(3)\n}\n")); err != nil {
		t.Fatal(err)
	}
	wasm := named("main.f", "main.flynnRan0", "main.flynnRan1", "main.flynnRan3", "main.flynnRan99")
	blocks := []meter.Block{{Function: 0, End: 5}, {Function: 0, Start: 5, End: 9}, {Function: 1, Start: 9, End: 12}, {Function: 2, Start: 12, End: 15}, {Function: 2, Start: 15, End: 18},
		{Function: 3, Start: 18, End: 20}, {Function: 4, Start: 20, End: 22}}
	r, err := s.Report(wasm, blocks, []uint64{9, 9, 5, 4, 8, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{{4, 4, Total{2, 1, 50}}, {5, 0, Total{1, 0, 0}}}
	if len(r.Files) != 1 || r.Files[0].Name != "a.go" || !slices.Equal(r.Files[0].Lines, want) || r.Total != (Total{3, 1, 100. / 3}) {
		t.Errorf("%+v", r)
	}
	if len(r.Functions) != 1 || r.Functions[0].Name != "main.f" || r.Functions[0].Calls != 5 || r.Functions[0].Line != 4 {
		t.Errorf("%+v", r.Functions)
	}
}

// named is a module that has nothing but names of functions.
func named(functions ...string) []byte {
	names := []byte{byte(len(functions))}
	for i, name := range functions {
		names = append(append(names, byte(i), byte(len(name))), name...)
	}
	content := append([]byte("\x04name\x01"), byte(len(names)))
	content = append(content, names...)
	return append([]byte("\x00asm\x01\x00\x00\x00\x00"), append([]byte{byte(len(content))}, content...)...)
}
