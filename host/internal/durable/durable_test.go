package durable

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	for _, c := range []struct {
		name, text string
		mode       fs.FileMode
	}{{"a new file", "one", 0o600}, {"in place of another", "two", 0o644}, {"in place of one that cannot be written", "three", 0o400}, {"once more", "", 0o600}} {
		t.Run(c.name, func(t *testing.T) {
			if err := WriteFile(name, []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(name)
			if err != nil || string(text) != c.text {
				t.Errorf("read %q (%v)", text, err)
			}
			if info, err := os.Stat(name); err != nil || info.Mode() != c.mode {
				t.Errorf("mode %v (%v)", info.Mode(), err)
			}
		})
	}
	if err := WriteFile(filepath.Join(dir, "none", "file"), nil, 0o600); err == nil {
		t.Error("wrote into a folder that there is not")
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "taken"), nil, 0o600); err == nil {
		t.Error("replaced a folder")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("left: %v (%v)", entries, err)
	}
}

func TestDraft(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name   string
		commit bool
		want   int // files that are left
	}{{"discarded", false, 0}, {"committed, and discarded after", true, 1}} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Begin(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{"one", "two"} {
				if _, err := d.Write([]byte(part)); err != nil {
					t.Fatal(err)
				}
			}
			name := filepath.Join(dir, "file")
			if c.commit {
				if err := d.Commit(name, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d.Discard()
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != c.want {
				t.Errorf("left: %v (%v)", entries, err)
			}
			if text, _ := os.ReadFile(name); c.commit && string(text) != "onetwo" {
				t.Errorf("read %q", text)
			}
		})
	}
	if _, err := Begin(filepath.Join(dir, "none")); err == nil {
		t.Error("began in a folder that there is not")
	}
}
