package author

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/flynnhost/flynn/host/policy/cover"

	"github.com/flynnhost/flynn/host/policy"
)

// codeSection is the content of a module's code section.
func codeSection(t *testing.T, path string) []byte {
	t.Helper()
	wasm, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for rest := wasm[8:]; len(rest) > 0; {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		content := rest[1+n : 1+n+int(size)]
		if id == 10 {
			return content
		}
		rest = rest[1+n+int(size):]
	}
	t.Fatal("no code")
	return nil
}

// TestRustLineTablesChangeNoCode is TestLineTablesChangeNoCode for rustc.
func TestRustLineTablesChangeNoCode(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "p")
	if err := New(dir, "rust", policy.KindTool); err != nil {
		t.Fatal(err)
	}
	mustBuild(t, dir)
	m, err := LoadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "plain.wasm")
	if err := compileRustWith(t.Context(), m, dir, plain, "-C", "strip=debuginfo"); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(codeSection(t, plain), codeSection(t, m.modulePath(dir))) {
		t.Error("other code with line tables than without")
	}
	report, err := TestCovered(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := report.Coverage; r.Lines == nil || r.Covered == 0 || len(r.Files) == 0 || slices.ContainsFunc(r.Files, func(f cover.File) bool { return f.Name != "policy.rs" }) {
		t.Errorf("%+v", r)
	}
}

// Shipped modules have line tables. The code must be the same to the byte without them.
func TestLineTablesChangeNoCode(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{firstParty("office-hours"), filepath.Join("testdata", "conformance-c")} {
		mustBuild(t, dir)
		m, err := LoadManifest(dir)
		if err != nil {
			t.Fatal(err)
		}
		plain := filepath.Join(t.TempDir(), "plain.wasm")
		if err := compileCWith(t.Context(), m, dir, plain); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(codeSection(t, plain), codeSection(t, m.modulePath(dir))) {
			t.Errorf("%s: other code with line tables than without", dir)
		}
		if bytes.Equal([]byte(read(t, plain)), []byte(read(t, m.modulePath(dir)))) {
			t.Errorf("%s: no line tables", dir)
		}
	}
}

const cCovered = `#include "flynn.h"

/* named is called for each role. */
__attribute__((noinline)) static uint32_t named(flynn_str role) {
	if (flynn_eq(role, FLYNN_S("owner"))) {
		flynn_trace(1, true);
		return 1;
	}
	if (flynn_eq(role, FLYNN_S("member"))) {
		flynn_trace(2, true);
		return 2;
	}
	flynn_trace(3, true);
	return 3;
}

FLYNN_ON_ROUTE(f) {
	switch (named(flynn_string(f, FLYNN_ROLE))) {
	case 1:
		return flynn_agent(FLYNN_S("coder"), 1, FLYNN_S("the owner"));
	case 2:
		flynn_log(1, FLYNN_S("a member"));
		return flynn_agent(FLYNN_S("helper"), 2, FLYNN_S("a member"));
	}
	return flynn_abstain();
}
`

const roleCases = `
[[case]]
name = "owner"
facts = { role = "owner", agents = ["coder", "helper"] }
want.agent = "coder"

[[case]]
name = "member"
facts = { role = "member", agents = ["coder", "helper"] }
want.agent = "helper"

[[case]]
name = "guest"
facts = { role = "guest" }
want.abstain = true
`

func TestCoverageOfC(t *testing.T) {
	dir := folder(t, map[string]string{manifestFile: cManifest, "policy.c": cCovered})
	writeRoleCases(t, dir)
	mustBuild(t, dir)
	checkCovered(t, dir, "policy.c", map[string]map[int]bool{ // some lines and whether they stay uncovered
		"":             {5: false, 9: false, 20: false, 22: false, 23: false},
		"owner":        {5: false, 9: true, 20: false, 22: true, 23: true},
		"member":       {5: false, 9: false, 20: true, 22: false, 23: false},
		"owner|member": {5: false, 9: false, 20: false, 22: false, 23: false},
		"guest":        {5: false, 20: true, 22: true, 23: true},
	})
	checkProfile(t, dir, "TN:p\nSF:some/folder/policy.c\n", "FNDA:1,named\n", "DA:18,1\n", "DA:22,0\n", "end_of_record\n")
}

// covered tests a policy with some of its cases. Counting changes neither answers nor fuel.
func covered(t *testing.T, dir, only string) Report {
	t.Helper()
	report, err := TestCovered(t.Context(), dir, regexp.MustCompile(only))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Test(t.Context(), dir, regexp.MustCompile(only))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range plain.Cases {
		if !c.Passed || c.Outcome.Fuel != report.Cases[i].Outcome.Fuel {
			t.Errorf("%q: %v, with coverage %v", c.Name, c.Outcome, report.Cases[i].Outcome)
		}
	}
	return report
}

// uncoveredLines are the lines of a policy's only file that some cases do not run, and those with code.
func uncoveredLines(t *testing.T, dir, file, only string) (uncovered, known []int) {
	t.Helper()
	for _, f := range covered(t, dir, only).Coverage.Files {
		if f.Name != file {
			t.Errorf("%s is not the author's", f.Name)
		}
		for _, l := range f.Lines {
			if known = append(known, l.Line); l.Count == 0 {
				uncovered = append(uncovered, l.Line)
			}
		}
	}
	return uncovered, known
}

func TestTheSameCMakesTheSameModule(t *testing.T) {
	var modules []string
	for _, name := range []string{"same", "deeper/same"} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := New(dir, "c", policy.KindRoute); err != nil {
			t.Fatal(err)
		}
		mustBuild(t, dir)
		modules = append(modules, read(t, filepath.Join(dir, "policy.wasm")))
	}
	if modules[0] != modules[1] {
		t.Error("two builds in two folders differ")
	}
}
