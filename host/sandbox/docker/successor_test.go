package docker

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// successor is the module that continues the engine's client.
var successor = []string{"github.com/moby/moby/client@v0.6.2", "github.com/moby/moby/api@v1.56.1"}

// TestSuccessor builds the package against the client's successor: testdata/successor.patch is the commit that would move it. Where a change
// of the package makes the patch fail, apply it by hand to a copy, and write it anew with git diff -U1.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	need.Long(t)
	need.Source(t)
	git, err := exec.LookPath("git")
	need.Part(t, "git", err)
	dir := t.TempDir()
	run := func(in string, argv ...string) error {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = in, append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Logf("%s\n%s", strings.Join(argv, " "), out)
		}
		return err
	}

	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	overlay := map[string]map[string]string{"Replace": {}}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		copyOf(t, name, filepath.Join(dir, name))
		overlay["Replace"][filepath.Join(here, name)] = filepath.Join(dir, name)
	}
	patch := filepath.Join(here, "testdata", "successor.patch")
	if err := run(dir, git, "apply", "-C1", patch); err != nil {
		t.Fatal(err)
	}
	listed, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), listed, 0o600); err != nil {
		t.Fatal(err)
	}

	root := filepath.Join(here, "..", "..", "..")
	modules := filepath.Join(dir, "go.mod")
	copyOf(t, filepath.Join(root, "go.mod"), modules)
	copyOf(t, filepath.Join(root, "go.sum"), filepath.Join(dir, "go.sum"))
	need.Part(t, "modules", run(root, append([]string{"go", "get", "-modfile=" + modules}, successor...)...))
	if err := run(root, "go", "build", "-modfile="+modules, "-mod=mod", "-overlay="+filepath.Join(dir, "overlay.json"), "./host/sandbox/docker"); err != nil {
		t.Error(err)
	}
}

func copyOf(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
