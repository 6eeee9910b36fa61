package mounts

import (
	"path/filepath"
	"strings"
	"testing"
)

// A store of any Flynn is known by its files, wherever it lies and whatever it is called.
func TestStoresOfOthers(t *testing.T) {
	root := layout(t, "a/h1/store/flynn.db", "a/h1/flynn.toml", "a/h1/store/workspaces/s", "b/deep/er/and/er/старый/flynn.db", "c/state/instance", "c/state/workspaces",
		"d/instance", "d/in", "e/workspaces", "f/flynn.db.md", "f/sub", "g/to-store -> ROOT/a/h1/store", "h/x/flynn.db")
	rules := Rules{Roots: []string{root}}
	for source, want := range map[string]string{
		"a": "holds ROOT/a/h1/store", "a/h1": "holds ROOT/a/h1/store", "a/h1/store": "is or lies in ROOT/a/h1/store",
		"a/h1/store/workspaces/s": "is or lies in ROOT/a/h1/store", "a/h1/store/flynn.db": "is or lies in ROOT/a/h1/store",
		"b": "holds ROOT/b/deep/er/and/er/старый", "c": "holds ROOT/c/state", "c/state/workspaces": "is or lies in ROOT/c/state",
		"d": "", "e": "", "f": "", "f/sub": "", "a/h1/flynn.toml": "", "g": "", "g/to-store": "leads to", "h/x/flynn.db": "is or lies in ROOT/h/x",
	} {
		s, err := rules.Open(filepath.Join(root, source))
		if err == nil {
			s.Close()
		}
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", source, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(want, "ROOT", root)) || !strings.Contains(err.Error(), "the store of a Flynn")):
			t.Errorf("%s: %v, want %s", source, err, want)
		}
	}
}
