package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

func TestOnlyAStaticSupervisorIsTaken(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path, want string
	}{
		{"static", build(t, dir, "static", "-static"), ""},
		{"dynamic", build(t, dir, "dynamic", "-no-pie"), "dynamically linked and cannot start in most images: build it with CGO_ENABLED=0"},
		{"position independent", build(t, dir, "pie", "-pie"), "dynamically linked"},
		{"no program", script, "is no program for Linux"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := checkStatic(c.path)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if err := checkStatic(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

// build links a program of nothing but its entry.
func build(t *testing.T, dir, name string, flags ...string) string {
	t.Helper()
	clang, err := exec.LookPath("clang")
	need.Part(t, "clang", err)
	source, program := filepath.Join(dir, "main.c"), filepath.Join(dir, name)
	if err := os.WriteFile(source, []byte("int main(void) { return 0; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(clang, append(flags, "-o", program, source)...).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return program
}
