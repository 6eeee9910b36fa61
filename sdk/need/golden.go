package need

import (
	"os"
	"path/filepath"
	"testing"
)

// Golden fails the test if a generated file does not have the text. With FLYNN_UPDATE=1 it writes the file instead.
func Golden(t testing.TB, path, text string) {
	t.Helper()
	if os.Getenv("FLYNN_UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	is, err := os.ReadFile(path)
	if err != nil || string(is) != text {
		t.Errorf("%s is not what the program says (%v): run the test again with FLYNN_UPDATE=1", path, err)
	}
}
