package author

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/cover"
)

// linesPolicy is a policy that has every kind of statement, with cases.
func linesPolicy(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lines")
	if err := New(dir, "go", policy.KindRoute); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, casesDir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "policy.go")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "policy_test.go")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "lines"))); err != nil {
		t.Fatal(err)
	}
	mustBuild(t, dir)
	return dir
}

// The lines that have run are those that the native test of the same source runs, and the module is the one that ships.
func TestLinesOfGoAreExact(t *testing.T) {
	t.Parallel()
	dir := linesPolicy(t)
	module := filepath.Join(dir, "policy.wasm")
	before := read(t, module)
	statements := statementLines(t, filepath.Join(dir, "logic.go"))
	for _, c := range []struct{ name, only, missing string }{
		{"all cases", "", "62 71 121 144 173 177"},
		{"two cases", "stranger|silent", "17 26 34 36 44 47 54 56 58 60-62 64 67 70-71 73 78 81 84-85 96 100 103-104 106 114-115 120-121 123 127-128 130 135-136 " +
			"143-144 146 152-153 163 171 173 177"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ran := linesRun(t, dir, c.only)
			for line, is := range nativeLines(t, dir, c.only, statements) {
				if got, known := ran[line]; !known || got != is {
					t.Errorf("line %d has run: %v, it is known: %v; natively it has: %v", line, got, known, is)
				}
			}
			if got := ranges(ran); got != c.missing {
				t.Errorf("have not run: %s, want %s", got, c.missing)
			}
		})
	}
	report, err := TestCovered(t.Context(), dir, regexp.MustCompile("stranger"))
	if err != nil {
		t.Fatal(err)
	}
	// It calls itself until the stack has to grow, and functions go on from their beginning then.
	if at := slices.IndexFunc(report.Coverage.Functions, func(f cover.Function) bool { return f.Name == "main.nested" }); at < 0 || report.Coverage.Functions[at].Calls != 51 {
		t.Errorf("main.nested is called 51 times: %+v", report.Coverage.Functions)
	}
	if read(t, module) != before {
		t.Error("the module is another one behind it")
	}
}

// linesRun tells of each line of logic.go whether the cases have run it, as the profile has it.
func linesRun(t *testing.T, dir, only string) map[int]bool {
	t.Helper()
	report, err := TestCovered(t.Context(), dir, regexp.MustCompile(only))
	if err != nil || report.Failed > 0 {
		t.Fatalf("%+v: %v", report, err)
	}
	if report.Coverage.Note != "" {
		t.Fatal(report.Coverage.Note)
	}
	var lcov strings.Builder
	if err := report.WriteCoverage(&lcov, "p"); err != nil {
		t.Fatal(err)
	}
	_, profile, _ := strings.Cut(lcov.String(), "SF:p/logic.go\n")
	profile, _, _ = strings.Cut(profile, "end_of_record")
	ran := map[int]bool{}
	for _, m := range regexp.MustCompile(`(?m)^DA:(\d+),(\d+)$`).FindAllStringSubmatch(profile, -1) {
		ran[number(t, m[1])] = m[2] != "0"
	}
	for _, p := range report.Coverage.Uncovered {
		for line := p.Line; p.File == "logic.go" && p.Covered == 0 && line <= max(p.Line, p.EndLine); line++ {
			if ran[line] {
				t.Errorf("%s is in the report, and in the profile it has run", p)
			}
		}
	}
	return ran
}

// statementLines are the lines on which statements begin, but for those that only hold others, and for fallthrough, which is no code.
func statementLines(t *testing.T, path string) (list []token.Position) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt, *ast.CaseClause, *ast.LabeledStmt:
		case ast.Stmt:
			if b, ok := n.(*ast.BranchStmt); ok && b.Tok == token.FALLTHROUGH {
				break
			}
			list = append(list, files.Position(n.Pos()))
		}
		return true
	})
	return list
}

// nativeLines runs the policy's own test and tells of each line with statements whether one of them has run.
func nativeLines(t *testing.T, dir, only string, statements []token.Position) map[int]bool {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "profile")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-coverprofile="+profile, "-run=TestDecide/^("+only+")", ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ran := map[int]bool{}
	lines := bufio.NewScanner(strings.NewReader(read(t, profile)))
	for lines.Scan() {
		var l1, c1, l2, c2, n, count int
		_, block, ours := strings.Cut(lines.Text(), "/logic.go:")
		if !ours {
			continue
		}
		if _, err := fmt.Sscanf(block, "%d.%d,%d.%d %d %d", &l1, &c1, &l2, &c2, &n, &count); err != nil {
			t.Fatalf("%s: %v", block, err)
		}
		for _, s := range statements {
			if (s.Line > l1 || s.Line == l1 && s.Column >= c1) && (s.Line < l2 || s.Line == l2 && s.Column < c2) {
				ran[s.Line] = ran[s.Line] || count > 0
			}
		}
	}
	if len(ran) == 0 {
		t.Fatal("no line")
	}
	return ran
}

// ranges are the lines that have not run: "3 5-7".
func ranges(ran map[int]bool) string {
	var list []string
	last := -1
	for _, line := range slices.Sorted(maps.Keys(ran)) {
		switch {
		case ran[line]:
		case line == last+1 && strings.Contains(list[len(list)-1], "-"):
			list[len(list)-1] = strings.TrimSuffix(list[len(list)-1], fmt.Sprint(last)) + fmt.Sprint(line)
			last = line
		case line == last+1:
			list[len(list)-1] += fmt.Sprintf("-%d", line)
			last = line
		default:
			list = append(list, fmt.Sprint(line))
			last = line
		}
	}
	return strings.Join(list, " ")
}

func number(t *testing.T, s string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A source that has changed since is not the module's.
func TestLinesOfAnotherSource(t *testing.T) {
	dir := linesPolicy(t)
	path := filepath.Join(dir, "logic.go")
	write(t, path, "// One line more.\n"+read(t, path))
	report, err := TestCovered(t.Context(), dir, regexp.MustCompile("silent"))
	if err != nil {
		t.Fatal(err)
	}
	if r := report.Coverage; !strings.Contains(r.Note, "was not built from this source by this toolchain: run flynn policy dev build "+dir) || r.Lines != nil || r.Covered == 0 {
		t.Errorf("%+v", r)
	}
	t.Setenv("PATH", t.TempDir())
	if report, err = TestCovered(t.Context(), dir, regexp.MustCompile("silent")); err != nil {
		t.Fatal(err)
	}
	if r := report.Coverage; !strings.Contains(r.Note, "go.dev/dl") || r.Lines != nil || r.Covered == 0 {
		t.Errorf("%+v", r)
	}
}

func TestSameConduct(t *testing.T) {
	one := func(trace, failure string) []CaseResult {
		return []CaseResult{{Name: "c", trace: trace, Outcome: Outcome{Error: failure}}}
	}
	for name, c := range map[string]struct {
		a, b []CaseResult
		same bool
	}{
		"the same":             {one("== c\nlog x\n-> abstain\n", ""), one("== c\nlog x\n-> abstain\n", ""), true},
		"another answer":       {one("== c\nlog x\n-> abstain\n", ""), one("== c\nlog x\n-> drop\n", ""), false},
		"another call":         {one("== c\nlog x\n-> abstain\n", ""), one("== c\nlog y\n-> abstain\n", ""), false},
		"one call more":        {one("== c\n-> abstain\n", ""), one("== c\nlog y\n-> abstain\n", ""), false},
		"the same class":       {one("== c\n-> error, trap: at 1\n", "trap: at 1"), one("== c\n-> error, trap: at 2\n", "trap: at 2"), true},
		"another class":        {one("== c\n-> error, trap: at 1\n", "trap: at 1"), one("== c\n-> error, fuel: spent\n", "fuel: spent"), false},
		"a limit":              {one("== c\n-> error, fuel: spent\n", "fuel: spent"), one("== c\n-> error, fuel: all spent\n", "fuel: all spent"), true},
		"beyond a limit":       {one("== c\n-> error, fuel: spent\n", "fuel: spent"), one("== c\n-> abstain\n", ""), false},
		"no failure":           {one("== c\n-> error, trap: at 1\n", "trap: at 1"), one("== c\n-> abstain\n", ""), false},
		"calls before failing": {one("== c\nlog x\n-> error, trap: a\n", "trap: a"), one("== c\n-> error, trap: a\n", "trap: a"), false},
	} {
		if err := sameConduct(c.a, c.b); (err == nil) != c.same {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRoomierLimits(t *testing.T) {
	l := policy.Limits{Fuel: 1000, Memory: 1 << 30, Depth: 19_999, HostCalls: 7}.Times(roomOfLines)
	if l.Fuel != 20_000 || l.Memory != 1<<30 || l.Depth != 20_000 || l.HostCalls != 7 || l.Wall == 0 {
		t.Errorf("%+v", l)
	}
}
