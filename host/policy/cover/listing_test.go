package cover

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/policy/meter"
)

// listingOfF is what the compiler would print of the function in goModule.
const listingOfF = `# p
main.f STEXT size=4 args=0x0 locals=0x0 funcid=0x0 align=0x0
	0x0000 00000 (p/a.go:9)	TEXT	main.f(SB), ABIInternal, $0-0
	0x0000 00000 (p/a.go:9)	Loop
	0x0000 00000 (p/a.go:9)	Block
	0x0000 00000 (p/a.go:9)	Block
	0x0000 00000 (p/a.go:9)	Block
	0x0000 00000 (p/a.go:9)	Get	PC_B
	0x0000 00000 (p/a.go:9)	BrTable
	0x0000 00000 (p/a.go:9)	End
	0x0000 00000 (p/a.go:20)	Get	SP
	0x0000 00000 (p/a.go:21)	If
	0x0000 00000 (p/a.go:21)	I32Const	$3
	0x0000 00000 (p/a.go:21)	Set	PC_B
	0x0000 00000 (p/a.go:21)	Br	$3
	0x0000 00000 (p/a.go:21)	End
	0x0000 00000 (p/a.go:22)	I32Const	$2
	0x0000 00000 (p/a.go:22)	Set	PC_B
	0x0000 00000 (p/a.go:22)	Br	$2
	0x0001 00001 (p/a.go:22)	End
	0x0001 00001 (<unknown line number>)	PCDATA	$0, $-2
	0x0001 00001 (p/a.go:23)	I32Const	$0
	0x0001 00001 (p/b.go:7)	Call	main.g(SB)
	0x0001 00001 (p/a.go:24)	BrIf	$1
	0x0002 00002 (p/a.go:24)	End
	0x0002 00002 (a.tmpl:3[p/a.go:25])	Get	SP
	0x0002 00002 (p/a.go:26)	Return
	0x0002 00002 (p/a.go:26)	End
	0x0002 00002 (p/a.go:26)	UNDEF
	0x0000 01 01 7f 23 00 21 01 03 40 02 40 02 40 02 40 20  ...#.!..@.@.@.@ 
	rel 46+1 t=R_CALL main.g+0
main..dict.g SRODATA dupok size=8
	0x0000 00 00 00 00 00 00 00 00                          ........
`

func TestListing(t *testing.T) {
	const head = "main.f STEXT nosplit size=1 args=0x0 locals=0x0 funcid=0x0 align=0x0 leaf\n"
	const one = "\t0x0000 00000 (p/x/../a.go:9)\tI64Const\t$1\n"
	for _, c := range []struct{ name, text, want string }{
		{"a function", head + one, "main.f: I64Const p/a.go:9"},
		{"with bytes and places to fill in", head + one + "\t0x0000 02 01 7f  ...\n\trel 0+1 t=R_ADDR x+0\n", "main.f: I64Const p/a.go:9"},
		{"two packages", "# p\n" + head + one + "# p/sub\n" + strings.Replace(head, "main.f", "p/sub.g[go.shape.struct { X int }]", 1) + one,
			"main.f: I64Const p/a.go:9, p/sub.g[go.shape.struct { X int }]: I64Const p/a.go:9"},
		{"a line directive", head + "\t0x0000 00000 (a.tmpl:3[p/a.go:9])\tNop\n", "main.f: Nop a.tmpl:3"},
		{"no line", head + "\t0x0000 00000 (<unknown line number>)\tNop\n", "main.f: Nop :0"},
		{"a wrapper", head + one + strings.Replace(head, "main.f", "main.w", 1) + "\t0x0000 00000 (p/a.go:9)\tTEXT\tmain.w(SB), DUPOK|WRAPPER|ABIInternal, $0-0\n",
			"main.f: I64Const p/a.go:9"},
		{"a file over two lines", head + "\t0x0000 00000 (p/\x1b[31m.go:9)\tNop\n", "main.f: Nop :0"},
		{"nothing", "", "no function"},
		{"data only", "main.x SRODATA size=8\n\t0x0000 00 00  ..\n", "no function"},
		{"an error of the compiler", head + "./policy.go:3:5: undefined: x\n", "line 2"},
		{"an instruction before any symbol", one, "line 1"},
		{"an instruction of data", "main.x SRODATA size=8\n" + one, "line 2"},
		{"a symbol without a size", "main.f STEXT\n", "line 1"},
		{"a size that is none", "main.f STEXT size=x\n", "line 1"},
		{"no offset", head + "\t00000 (p/a.go:9)\tNop\n", "line 2"},
		{"no place", head + "\t0x0000 (p/a.go:9)\tNop\n", "line 2"},
		{"no position", head + "\t0x0000 00000 \tNop\n", "line 2"},
		{"no instruction", head + "\t0x0000 00000 (p/a.go:9)\n", "line 2"},
		{"a line without end", head + strings.Repeat("x", maxListedLine+1), "line 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := ParseListing(strings.NewReader(c.text))
			if got := told(l, err); !strings.Contains(got, c.want) || err == nil && got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// told is a listing in one line.
func told(l *Listing, err error) string {
	if err != nil {
		return err.Error()
	}
	var list []string
	for name, instances := range l.functions {
		s := name + ":"
		for _, in := range instances[0] {
			s += fmt.Sprintf(" %s %s:%d", in.op, in.file, in.line)
		}
		list = append(list, s)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func TestReadListed(t *testing.T) {
	const part0, part1, part2 = 26, 44, 55 // as in TestGoLines
	list := func(more ...row) []row { return more }
	for _, c := range []struct {
		name, callee string
		change       func(listing string) string
		rows         []row
		others       int
	}{
		// The branch and the jumps are no code of a line.
		{"each instruction", "main.g", nil, list(at(part0, part0+2, "p/a.go", 20), at(part0+2, part0+3, "p/a.go", 21), at(part1, part1+2, "p/a.go", 23),
			at(part1+2, part1+8, "p/b.go", 7), at(part1+8, part1+10, "p/a.go", 24), at(part2, part2+2, "a.tmpl", 3), at(part2+2, part2+3, "p/a.go", 26)), 0},
		{"machinery", "runtime.panicIndex", nil, list(at(part0, part0+2, "p/a.go", 20), at(part0+2, part0+3, "p/a.go", 21), at(part2, part2+2, "a.tmpl", 3),
			at(part2+2, part2+3, "p/a.go", 26)), 0},
		{"one more instruction", "runtime.panicIndex", func(s string) string {
			return strings.Replace(s, "\tUNDEF\n", "\tUNDEF\n\t0x0002 00002 (p/a.go:26)\tDrop\n", 1)
		}, list(at(part0, part0+3, "p/a.go", 10), at(part0, part0+3, "p/a.go", 11)), 1},
		{"another instruction", "runtime.panicIndex", func(s string) string { return strings.Replace(s, "BrIf\t$1", "Br\t$1", 1) },
			list(at(part0, part0+3, "p/a.go", 10), at(part0, part0+3, "p/a.go", 11)), 1},
		{"an instruction that is not known", "runtime.panicIndex", func(s string) string { return strings.Replace(s, "\tUNDEF\n", "\tLater\n", 1) },
			list(at(part0, part0+3, "p/a.go", 10), at(part0, part0+3, "p/a.go", 11)), 1},
		{"another function", "runtime.panicIndex", func(s string) string { return strings.ReplaceAll(s, "main.f", "main.h") }, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := listingOfF
			if c.change != nil {
				text = c.change(text)
			}
			listing, err := ParseListing(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			s, others, err := ReadListed(goModule(c.callee), listing)
			if err != nil {
				t.Fatal(err)
			}
			rows := slices.DeleteFunc(s.rows, func(r row) bool { return len(s.dropped) > 0 && r.start >= s.dropped[0].Start })
			if !slices.EqualFunc(rows, c.rows, func(a, b row) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) || len(others) != c.others {
				t.Errorf("%+v and %q, want %+v", rows, others, c.rows)
			}
		})
	}
}

// A line of a function is one block, whatever lies between its pieces, and what the linker has dropped has not run.
func TestReportOfLines(t *testing.T) {
	s := &Source{listed: true, names: map[int]string{3: "f", 4: "g"}, rows: []row{at(10, 12, "p.go", 1), at(12, 20, "p.go", 2), at(20, 22, "p.go", 1),
		at(22, 30, "p.go", 2), at(40, 41, "p.go", 7), at(41, 42, "p.go", 8)}, dropped: []meter.Block{{Function: 4, Start: 40, End: 42}}}
	blocks := []meter.Block{{Function: 3, Start: 8, End: 14}, {Function: 3, Start: 14, End: 22}, {Function: 3, Start: 22, End: 30}}
	r := s.Report(blocks, []uint64{1, 3, 0}, Own{File: InFolder()})
	want := []Line{{1, 3, Total{1, 1, 100}}, {2, 3, Total{1, 1, 100}}, {7, 0, Total{1, 0, 0}}, {8, 0, Total{1, 0, 0}}}
	if len(r.Files) != 1 || !slices.Equal(r.Files[0].Lines, want) {
		t.Errorf("%+v", r.Files)
	}
	if r.Total != (Total{4, 2, 50}) || r.Module.Blocks != 3 || len(r.Functions) != 2 || r.Functions[0].Calls != 1 || len(r.Uncovered) != 1 || r.Uncovered[0].String() != "p.go:7-8" {
		t.Errorf("%+v", r)
	}
}

// FuzzListing feeds anything to the parser, and what it makes of it to a module.
func FuzzListing(f *testing.F) {
	f.Add(listingOfF)
	f.Add("main.f STEXT size=1\n\t0x0000 00000 (p/a.go:9)\tSet\tR0\n\t0x0000 00000 (p/a.go:9)\tGet\tR0\n")
	f.Add("main.f STEXT size=1\n\t0x0000 00000 (:[)\tx\n")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseListing(strings.NewReader(text))
		if err != nil {
			return
		}
		s, others, err := ReadListed(goModule("main.g"), l)
		if err != nil {
			t.Fatal(err)
		}
		end := 0
		for _, r := range s.rows {
			if r.start < end && len(others) == 0 || r.end <= r.start || r.line < 1 || printable(r.file) == "" {
				t.Fatalf("%+v behind %d", r, end)
			}
			end = r.end
		}
	})
}
