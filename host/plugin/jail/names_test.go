package jail

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/internal/durable"
)

// replaceFile replaces a file as a resolver's manager does.
func replaceFile(t *testing.T, name, text string) {
	t.Helper()
	if err := durable.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCopiesOfFilesForNames(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "hosts")
	replaceFile(t, file, "one")
	n, err := OpenNames(filepath.Join(dir, "run"), []string{file, filepath.Join(dir, "missing")}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	target := n.Links()[file]
	if len(n.Links()) != 2 || filepath.Dir(target) != n.Dir {
		t.Errorf("links %v", n.Links())
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
	if _, err := OpenNames(filepath.Join(dir, "run"), []string{file}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("what an earlier host copied is shown")
	}
	replaceFile(t, file, strings.Repeat("x", maxNames+1))
	long, err := OpenNames(filepath.Join(dir, "run"), []string{file}, slog.New(slog.DiscardHandler))
	if err != nil || len(long.Links()) != 0 {
		t.Errorf("a file that was never copied: %v, %v", long.Links(), err)
	}
}
