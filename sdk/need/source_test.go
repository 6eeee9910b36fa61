package need_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/need"
)

// TestResultsAreOfTheSourceThatIsThere has the go command keep results of a package that imports next to nothing.
func TestResultsAreOfTheSourceThatIsThere(t *testing.T) {
	need.Source(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module example.com/kept\n\ngo 1.26\n\nrequire github.com/flynnhost/flynn v0.0.0\n\nreplace github.com/flynnhost/flynn => " + root + "\n",
		"a/a_test.go":    "package a\n\nimport (\n\t\"testing\"\n\n\t\"github.com/flynnhost/flynn/sdk/need\"\n)\n\nfunc TestSource(t *testing.T) { need.Source(t) }\n",
		"b/b_test.go":    "package b\n\nimport \"testing\"\n\nfunc TestNothing(t *testing.T) {}\n",
		"other/other.go": "package other\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(pkg string) bool {
		cmd := exec.CommandContext(t.Context(), "go", "test", "./"+pkg)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod -buildvcs=false -trimpath", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.Contains(string(out), "(cached)")
	}
	past(t, dir)
	for _, pkg := range []string{"a", "b"} {
		if kept(pkg); !kept(pkg) {
			t.Fatalf("the result of %s is not kept at all", pkg)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "other/other.go"), []byte("package other\n\nconst Changed = true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	past(t, dir)
	if kept("a") {
		t.Error("a result is kept though the source has changed")
	}
	if !kept("b") {
		t.Error("the package beside it, which does not depend on all, has lost its result")
	}
}

// past makes what is in a folder old enough for its results to be kept: the go command does not trust times of the last seconds.
func past(t *testing.T, dir string) {
	t.Helper()
	old := time.Now().Add(-time.Minute)
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(name, old, old))
	})
	if err != nil {
		t.Fatal(err)
	}
}
