package proto_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/sdk/need"
)

// buf runs the pinned buf in this folder.
func buf(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	need.Source(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute) // it may have to be built
	defer cancel()
	args = append([]string{"tool", "-modfile=../../tools.mod", "buf"}, args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd.CombinedOutput()
}

func TestGeneratedCodeMatchesProto(t *testing.T) {
	_, err := buf(t, "--version")
	need.Part(t, "buf", err)

	fresh := t.TempDir()
	if out, err := buf(t, "generate", "-o", fresh); err != nil {
		t.Fatalf("generate: %v\n%s", err, out)
	}
	if diff := cmp.Diff(goFiles(t, fresh), goFiles(t, ".")); diff != "" {
		t.Errorf("generated code is stale: run `go tool -modfile=../../tools.mod buf generate` in sdk/proto (-fresh +committed):\n%s", diff)
	}
}

func TestLint(t *testing.T) {
	_, err := buf(t, "--version")
	need.Part(t, "buf", err)
	if out, err := buf(t, "lint"); err != nil {
		t.Errorf("lint: %v\n%s", err, out)
	}
}

// goFiles reads every generated file below dir.
func goFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".pb.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no generated file below %s", dir)
	}
	return files
}
