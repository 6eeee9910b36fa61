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

// Source makes the result of a test depend on all source files of its module. The go command reuses a package's result until one of the
// package's imports has changed, or a file or folder of the module that the test has opened. A test that builds programs, or inspects
// packages, depends on more.
func Source(t testing.TB) {
	t.Helper()
	if err := Sources(); err != nil {
		t.Fatalf("look at the module's source: %v", err)
	}
}

// Sources is Source for code outside of a test. It opens the files once per process.
func Sources() error { return look() }

var look = sync.OnceValue(func() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error { // opening each folder makes its files count
		if err == nil && d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if errors.Is(err, fs.ErrNotExist) { // another test has removed it
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
