package need

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Source makes the result of a test depend on all source of its module. The go command keeps a package's result until a package that it
// imports has changed, or a file or folder of the module that it has opened. A test that builds programs, or asks about packages,
// depends on more.
func Source(t testing.TB) {
	t.Helper()
	if err := Sources(); err != nil {
		t.Fatalf("look at the module's source: %v", err)
	}
}

// Sources is Source where there is no test yet. A package's result is one, so it looks once.
func Sources() error { return look() }

var look = sync.OnceValue(func() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error { // it opens each folder, and so its files count
		if err == nil && d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if errors.Is(err, fs.ErrNotExist) { // another test is done with it
			return nil
		}
		return err
	})
})

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("no go.mod here or above")
		}
		dir = above
	}
}
