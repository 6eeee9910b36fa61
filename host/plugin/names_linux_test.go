package plugin

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/sdk/need"
)

// replaceFile replaces a file as a resolver's manager does.
func replaceFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

func TestAProcessSeesFilesForNamesChange(t *testing.T) {
	if why := findNamespaces().why; why != "" {
		need.Part(t, "namespaces", errors.New(why))
	}
	file := filepath.Join(t.TempDir(), "resolv.conf")
	replaceFile(t, file, "first")
	s := startPrepared(t, map[string]string{"actor": makePack(t, "reader", packOptions{})}, Containment{Launcher: testLauncher(t)}, func(h *Host) {
		h.nameFiles = []string{file, filepath.Join(filepath.Dir(file), "missing")} // a link to nothing harms nobody
	})
	s.add(Instance{Name: "one", Plugin: "actor", Settings: map[string]any{"file": file}}, &listener{})
	s.awaitLog("file says first <nil>")
	for _, text := range []string{"second", "third"} {
		replaceFile(t, file, text)
		s.awaitLog("file says " + text + " <nil>")
	}
	if strings.Contains(s.log.String(), "file says  ") {
		t.Errorf("it was gone for a moment:\n%s", s.log)
	}
}

func TestCopiesOfFilesForNames(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "hosts")
	replaceFile(t, file, "one")
	n, err := openNames(filepath.Join(dir, "run"), []string{file, filepath.Join(dir, "missing")}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	target := n.links()[file]
	if len(n.links()) != 2 || filepath.Dir(target) != n.dir {
		t.Errorf("links %v", n.links())
	}
	for _, step := range []struct{ write, want string }{
		{"two", "two"}, {strings.Repeat("x", maxNames+1), "two"}, {"three", "three"}, {"", ""},
	} {
		replaceFile(t, file, step.write)
		n.copy()
		if text, err := os.ReadFile(target); err != nil || string(text) != step.want {
			t.Errorf("%d bytes, %v, want %q", len(text), err, step.want)
		}
	}
	replaceFile(t, file, "four")
	n.copy()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	n.copy()
	if text, err := os.ReadFile(target); err != nil || string(text) != "four" {
		t.Errorf("a file that is gone: %q, %v", text, err)
	}
	if _, err := openNames(filepath.Join(dir, "run"), []string{file}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("what an earlier host copied is shown")
	}
	replaceFile(t, file, strings.Repeat("x", maxNames+1))
	long, err := openNames(filepath.Join(dir, "run"), []string{file}, slog.New(slog.DiscardHandler))
	if err != nil || len(long.links()) != 0 {
		t.Errorf("a file that was never copied: %v, %v", long.links(), err)
	}
}
