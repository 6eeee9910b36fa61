package author

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/opa"
	"github.com/flynnhost/flynn/sdk/policy/abi"

	"github.com/flynnhost/flynn/sdk/need"
)

// The document that Rego is handed has the names of case files, and leaves no fact out.
func TestRegoNamesFactsAsCasesDo(t *testing.T) {
	facts := append(opa.RouteFacts(), opa.ToolFacts()...)
	for _, f := range facts {
		if policy.FieldNames()[f.Field] != f.Name {
			t.Errorf("%s is %q in cases", f.Name, policy.FieldNames()[f.Field])
		}
	}
	for field, name := range policy.FieldNames() {
		if field < abi.OutAgent && !slices.ContainsFunc(facts, func(f opa.Fact) bool { return f.Field == field }) {
			t.Errorf("%s is not in the document", name)
		}
	}
}

// Coverage is by rule: OPA's own library, of some 500 functions, is not the author's.
func TestCoverageOfRego(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	if err := New(dir, "rego", policy.KindRoute); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "policy.rego"), `package flynn

route := {"agent": "coder"} if owner

owner if input.role == "owner"

route := {"agent": "helper"} if member

member if {
	input.role == "member"
	input.text == "x"
}
`)
	writeRoleCases(t, dir)
	mustBuild(t, dir)
	report, err := TestCovered(t.Context(), dir, regexp.MustCompile("owner"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range report.Coverage.Functions {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	if want := []string{"g0.data.flynn.member", "g0.data.flynn.owner", "g0.data.flynn.route"}; !slices.Equal(names, want) || report.Coverage.Covered == 0 {
		t.Errorf("%q, want %q", names, want)
	}
}

// A build finds its compiler in the folder of Flynn's sources, on PATH, or says how to get it; and its errors have file and line.
func TestRegoBuildFindsItsCompiler(t *testing.T) {
	need.Long(t) // it builds with a real compiler
	dir := filepath.Join(t.TempDir(), "mine")
	if err := New(dir, "rego", policy.KindRoute); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(dir, "policy.rego")
	if err := os.WriteFile(source, []byte("package flynn\n\nroute := {\"agent\": input.agnet}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails := func(want string) {
		t.Helper()
		if _, err := Build(t.Context(), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	fails("policy.rego:3: undefined ref: input.agnet")

	// Elsewhere, without it.
	t.Chdir(dir)
	t.Setenv("PATH", t.TempDir())
	fails("go install github.com/flynnhost/flynn/cmd/flynn-rego@latest")

	tools := t.TempDir()
	t.Setenv("PATH", tools)
	shell, err := exec.LookPath("/bin/sh")
	if err != nil {
		t.Skip("no shell")
	}
	script := "#!" + shell + "\necho found with $3 $4 >&2; exit 1\n"
	if err := os.WriteFile(filepath.Join(tools, regoTool), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	fails("found with -kinds route")
}
