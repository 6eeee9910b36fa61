// Package archive stores the modules of policies by their SHA-256, so that a recorded decision can be traced to the code that made
// it, and a policy can be rolled back to code whose file is gone.
//
// Start with Open. A file of the archive is written once, read-only, and checked against its name each time it is read. The caller decides
// which modules to keep.
package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/policy/meter"
)

// Archive is a folder of modules. It is safe for concurrent use.
type Archive struct{ dir string }

// suffix is that of a module's file; its name is the SHA-256 in lower-case hex.
const suffix = ".wasm"

// Open opens the archive in dir, and makes the folder if it is missing.
func Open(dir string) (*Archive, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the archive of policies: %w", err)
	}
	return &Archive{dir}, nil
}

// Put stores a module and returns its digest.
func (a *Archive) Put(wasm []byte) (string, error) {
	if len(wasm) > meter.MaxModule {
		return "", fmt.Errorf("keep a policy's module: it has more than %d bytes", meter.MaxModule)
	}
	sum := digest.Of(wasm)
	if _, err := a.Get(sum); err == nil {
		return sum, nil
	}
	if err := durable.WriteFile(a.path(sum), wasm, 0o400); err != nil {
		return "", fmt.Errorf("keep a policy's module: %w", err)
	}
	return sum, nil
}

// Get returns the module with that digest. It returns an error if the file does not have the digest of its name.
func (a *Archive) Get(sum string) ([]byte, error) {
	if !digest.Valid(sum) {
		return nil, fmt.Errorf("%q is not a SHA-256 in lower-case hex", sum)
	}
	f, err := os.Open(a.path(sum))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the archive of policies has no module %s: %w", sum, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	wasm, err := io.ReadAll(io.LimitReader(f, meter.MaxModule+1))
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", sum, err)
	}
	if digest.Of(wasm) != sum {
		return nil, fmt.Errorf("%s is not the module that its name says: it was changed on the disk", a.path(sum))
	}
	return wasm, nil
}

// Prune removes the modules that are older than age and for which keep returns false.
func (a *Archive) Prune(age time.Duration, keep func(digest string) bool) error {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return fmt.Errorf("prune the archive of policies: %w", err)
	}
	var errs []error
	for _, e := range entries {
		sum, module := strings.CutSuffix(e.Name(), suffix)
		if module = module && digest.Valid(sum); module && keep(sum) || !module && !strings.HasPrefix(e.Name(), durable.DraftPrefix) {
			continue
		}
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < age {
			continue
		}
		errs = append(errs, os.Remove(filepath.Join(a.dir, e.Name())))
	}
	return errors.Join(errs...)
}

func (a *Archive) path(sum string) string { return filepath.Join(a.dir, sum+suffix) }
