package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzLoad: whatever the file holds, there is a configuration that shows and loads again, or there are errors that
// name the file and a line in it.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.toml", referenceFile} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Add([]byte(minimal))
	home := f.TempDir()
	path := filepath.Join(home, "flynn.toml")
	f.Fuzz(func(t *testing.T, src []byte) {
		getenv := environ("HOME", home, "SET", "value")
		cfg, err := parse(path, src, getenv)
		if err != nil {
			checkErrors(t, err, bytes.Count(src, []byte("\n"))+1)
			return
		}
		var shown bytes.Buffer
		if err := cfg.Show(&shown); err != nil {
			t.Fatalf("show: %v\n%s", err, src)
		}
		if _, err := parse(path, shown.Bytes(), getenv); err != nil {
			t.Errorf("what was shown does not load: %v\n%s\nfrom\n%s", err, shown.Bytes(), src)
		}
	})
}

func checkErrors(t *testing.T, err error, lines int) {
	t.Helper()
	var errs Errors
	if !errors.As(err, &errs) || len(errs) == 0 {
		t.Fatalf("error is a %T: %v", err, err)
	}
	for _, e := range errs {
		if e.File == "" || e.Problem == "" || e.Line < 0 || e.Line > lines || e.Line == 0 && e.Key == "" {
			t.Errorf("error without position or problem: %+v", e)
		}
		if strings.ContainsAny(e.Error(), "\n") {
			t.Errorf("error of two lines: %q", e.Error())
		}
	}
}
