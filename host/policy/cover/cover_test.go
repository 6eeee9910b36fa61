package cover

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/policy/meter"
)

func TestOwnFiles(t *testing.T) {
	own := InFolder("flynn.h", "vendor/")
	for name, want := range map[string]bool{
		"policy.c": true, "src/lib.rs": true, "flynn.h": false, "sub/flynn.h": false, "vendor/x/y.c": false, "~flynn/flynn.h": false, "../other.c": false,
		"/rustc/abc/library/core/src/str.rs": false, "vendors.c": true,
	} {
		if own(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func at(start, end int, file string, line int) row {
	return row{start: start, end: end, position: position{file: file, line: line}}
}

// twoFunctions has four blocks: two of f in one file, one of f in a header, and one of g.
func twoFunctions() (*Source, []meter.Block) {
	s := &Source{names: map[int]string{3: "f"}, rows: []row{at(10, 20, "p.c", 1), at(20, 24, "p.c", 2), at(24, 30, "flynn.h", 7), at(30, 40, "p.c", 3), at(50, 60, "p.c", 9)}}
	return s, []meter.Block{{Function: 3, Start: 10, End: 22}, {Function: 3, Start: 22, End: 26}, {Function: 3, Start: 26, End: 30}, {Function: 3, Start: 30, End: 40},
		{Function: 4, Start: 50, End: 60}}
}

func TestReportByLine(t *testing.T) {
	s, blocks := twoFunctions()
	r := s.Report(blocks, []uint64{5, 0, 0, 2, 0}, Own{File: InFolder("flynn.h")})
	if r.Total != (Total{4, 2, 50}) || r.Module != (Total{5, 2, 40}) || *r.Lines != (Total{4, 3, 75}) {
		t.Errorf("blocks %+v, module %+v, lines %+v", r.Total, r.Module, *r.Lines)
	}
	want := []Line{{1, 5, Total{1, 1, 100}}, {2, 5, Total{2, 1, 50}}, {3, 2, Total{1, 1, 100}}, {9, 0, Total{1, 0, 0}}}
	if len(r.Files) != 1 || !slices.Equal(r.Files[0].Lines, want) {
		t.Errorf("files %+v", r.Files)
	}
	var places []string
	for _, p := range r.Uncovered {
		places = append(places, p.String())
	}
	if !slices.Equal(places, []string{"p.c:2 (1 of 2 blocks ran)", "p.c:9"}) {
		t.Errorf("uncovered %q", places)
	}
	if len(r.Functions) != 2 || r.Functions[0].Name != "f" || r.Functions[0].Calls != 5 || r.Functions[1].Name != "function 4" || r.Functions[1].Line != 9 {
		t.Errorf("functions %+v", r.Functions)
	}
}

func TestReportByFunction(t *testing.T) {
	s, blocks := twoFunctions()
	s.rows = nil
	all := s.Report(blocks, []uint64{5, 0, 0, 2, 0}, Own{})
	if all.Total != all.Module || all.Lines != nil || len(all.Uncovered) != 2 {
		t.Errorf("%+v", all)
	}
	one := s.Report(blocks, []uint64{5, 0, 0, 2, 0}, Own{Function: func(name string) bool { return name == "f" }})
	if one.Total != (Total{4, 2, 50}) || len(one.Uncovered) != 1 || one.Uncovered[0].String() != "f (2 of 4 blocks ran)" {
		t.Errorf("%+v", one)
	}
	if err := one.WriteLCOV(io.Discard, "p", "."); !errors.Is(err, ErrNoLines) {
		t.Errorf("a profile without lines: %v", err)
	}
}

// A function may have no code but that of calls that were inlined into it.
func TestReportByCallers(t *testing.T) {
	s := &Source{rows: []row{{start: 0, end: 10, position: position{file: "flynn/src/lib.rs", line: 7}, callers: []position{{"p.rs", 3, true}}}}}
	r := s.Report([]meter.Block{{Function: 1, Start: 0, End: 10}}, []uint64{2}, Own{File: InFolder("flynn/")})
	if r.Lines == nil || len(r.Files) != 1 || r.Files[0].Name != "p.rs" || r.Files[0].Lines[0] != (Line{3, 2, Total{1, 1, 100}}) {
		t.Errorf("%+v", r)
	}
}

func TestNeighboursAreOnePlace(t *testing.T) {
	none := Total{1, 0, 0}
	f := File{Name: "p.c", Lines: []Line{{3, 0, none}, {5, 0, none}, {6, 1, Total{1, 1, 100}}, {7, 0, none}}}
	list := f.uncovered()
	if len(list) != 2 || list[0].String() != "p.c:3-5" || list[0].Blocks != 2 || list[1].String() != "p.c:7" {
		t.Errorf("%+v", list)
	}
}

// FuzzRead feeds anything: a module says what it likes of its source.
func FuzzRead(f *testing.F) {
	f.Add([]byte("\x00asm\x01\x00\x00\x00"))
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x00\x0c\x04name\x01\x06\x01\x00\x03abc"))
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x00\x10\x0b.debug_line\x01\x00\x00\x00\x00\x0b\x0b.debug_info\x02\x02"))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if len(wasm) > 1<<16 {
			return
		}
		s, err := Read(wasm)
		if err != nil {
			return
		}
		blocks := []meter.Block{{Function: 0, Start: 0, End: 100}, {Function: 1, Start: 100, End: 1 << 16}}
		if r := s.Report(blocks, []uint64{1, 0}, Own{File: InFolder()}); r.Module.Blocks != 2 {
			t.Errorf("%+v", r)
		}
	})
}
