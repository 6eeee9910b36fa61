package author

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/policy"
)

const goCovered = `package main

import "github.com/flynnhost/flynn/sdk/policy"

func init() { policy.Route(route) }

func main() {}

func route(f policy.RouteFacts) policy.RouteAnswer {
	switch named(f.Role()) {
	case 1:
		return policy.RouteAnswer{Agent: "coder", Rule: 1, Reason: "the owner"}
	case 2:
		policy.Log(policy.Info, "a member")
		return policy.RouteAnswer{Agent: "helper", Rule: 2, Reason: "a member"}
	}
	return policy.RouteAnswer{}
}

//go:noinline
func named(role string) int {
	if role == "owner" {
		policy.Trace(1, true)
		return 1
	}
	if role == "member" {
		policy.Trace(2, true)
		return 2
	}
	policy.Trace(3, true)
	return 3
}
`

func TestCoverageOfGo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "p")
	if err := New(dir, "go", policy.KindRoute); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "policy.go"), goCovered)
	writeRoleCases(t, dir)
	mustBuild(t, dir)
	checkCovered(t, dir, "policy.go", map[string]map[int]bool{
		"owner": {10: false, 12: false, 14: true, 15: true, 17: true, 23: false, 27: true, 30: true},
		"guest": {10: false, 12: true, 14: true, 15: true, 17: false, 23: true, 27: true, 30: false},
	})
	checkProfile(t, dir, "TN:p\nSF:some/folder/policy.go\n", "FNDA:1,main.named\n", "DA:10,1\n", "DA:14,0\n", "end_of_record\n")
}

// A source that is a list of files has no module in their names.
func TestCoverageOfOneGoFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "p")
	if err := New(dir, "go", policy.KindRoute); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(dir, manifestFile)
	write(t, manifest, read(t, manifest)+"\n[build]\nsource = \"policy.go\"\n")
	mustBuild(t, dir)
	report, err := TestCovered(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := report.Coverage; r.Lines == nil || r.Lines.Covered == 0 || len(r.Files) != 1 || r.Files[0].Name != "policy.go" {
		t.Errorf("%+v", r)
	}
}

// writeRoleCases puts cases into a policy's folder that take one branch each.
func writeRoleCases(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, casesDir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, casesDir), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, casesDir, "roles.toml"), roleCases)
}

// checkCovered tests a policy with some of its cases at a time, and says of some lines whether they stay uncovered.
func checkCovered(t *testing.T, dir, file string, want map[string]map[int]bool) {
	t.Helper()
	for only, missing := range want {
		uncovered, known := uncoveredLines(t, dir, file, only)
		for line, is := range missing {
			if !slices.Contains(known, line) || slices.Contains(uncovered, line) != is {
				t.Errorf("cases %q: of %v, %v have not run; line %d should be there: %v", only, known, uncovered, line, is)
			}
		}
	}
}

// checkProfile looks for lines of the profile of the case "guest".
func checkProfile(t *testing.T, dir string, want ...string) {
	t.Helper()
	report := covered(t, dir, "guest")
	var lcov strings.Builder
	if err := report.WriteCoverage(&lcov, "some/folder"); err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		if !strings.Contains(lcov.String(), w) {
			t.Errorf("the profile lacks %q:\n%s", w, &lcov)
		}
	}
}
