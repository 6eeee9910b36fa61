package program

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// A source that does not count would leave an older program in the cache in use.
func TestSourcesAreAllThatAProgramIsBuiltFrom(t *testing.T) {
	need.Source(t)
	module, err := findModule()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []program{supervisor(), listening(), probe()} {
		list := exec.Command("go", "list", "-deps", "./cmd/"+p.name)
		list.Dir, list.Env = module, append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, dep := range strings.Fields(string(out)) {
			folder, ours := strings.CutPrefix(dep, "github.com/flynnhost/flynn/")
			if !ours {
				continue
			}
			found++
			if !slices.ContainsFunc(p.sources, func(s string) bool { return folder == s || strings.HasPrefix(folder, s+"/") }) {
				t.Errorf("%s is built from %s, which is not among its sources", p.name, folder)
			}
		}
		if found < len(p.sources) {
			t.Errorf("%s is built from %d of %q", p.name, found, p.sources)
		}
	}
}

func TestOnlyAStaticSupervisorIsTaken(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path, want string
	}{
		{"static", link(t, dir, "static", "-static"), ""},
		{"dynamic", link(t, dir, "dynamic", "-no-pie"), "dynamically linked and cannot start in most images: build it with CGO_ENABLED=0"},
		{"position independent", link(t, dir, "pie", "-pie"), "dynamically linked"},
		{"no program", script, "is not a program for Linux"},
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

// link makes a program of nothing but its entry.
func link(t *testing.T, dir, name string, flags ...string) string {
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

func TestInstalledSupervisorIsACopy(t *testing.T) {
	source := filepath.Join(t.TempDir(), Supervisor)
	if err := os.WriteFile(source, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(t.TempDir(), "run")
	first, _, err := Install(source, run)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(first); err != nil || info.Mode() != 0o555 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
	if err := os.WriteFile(source, []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	second, _, err := Install(source, run)
	if err != nil || second == first {
		t.Errorf("second copy at %s (%v)", second, err)
	}
	if got, err := os.ReadFile(first); err != nil || string(got) != "one" {
		t.Errorf("the first copy changed to %q (%v)", got, err)
	}
	if again, _, err := Install(source, run); err != nil || again != second {
		t.Errorf("copied again to %s (%v)", again, err)
	}
}

func TestSupervisorNowhere(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := FindSupervisor(slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "beside the program") {
		t.Errorf("got %v", err)
	}
}
