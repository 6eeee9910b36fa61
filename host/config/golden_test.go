package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// TestErrors compares all messages of each testdata/bad/*.toml with its .golden file.
func TestErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".toml")
		t.Run(name, func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			write(t, filepath.Join(dir, "open.key"), "secret", 0o644)
			write(t, filepath.Join(dir, "empty.key"), "\n", 0o600)
			write(t, filepath.Join(dir, "some.wasm"), "", 0o600)
			path := write(t, filepath.Join(dir, "flynn.toml"), string(src), 0o600)
			_, err = Load(path, environ("HOME", dir, "SET", "value"))
			var errs Errors
			if !errors.As(err, &errs) {
				t.Fatalf("error is %v", err)
			}
			got := strings.ReplaceAll(strings.ReplaceAll(errs.Error(), dir+"/", ""), dir, "DIR") + "\n"
			golden := strings.TrimSuffix(file, ".toml") + ".golden"
			if *update {
				write(t, golden, got, 0o644)
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("messages are\n%s\nwant\n%s", got, want)
			}
		})
	}
}
