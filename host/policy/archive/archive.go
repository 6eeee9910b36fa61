// Package archive keeps the modules of policies by their SHA-256, so that a recorded decision can be traced to the very code that made
// it, and a policy can go back to code whose file is gone.
//
// Start with Open. A file of the archive is written once, read-only, and checked against its name each time it is read. Which modules
// are worth keeping is the caller's business.
package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/internal/durable"
	"github.com/flynnhost/flynn/host/policy/meter"
)

// Archive is a folder of modules. It is safe for concurrent use.
type Archive struct{ dir string }

// suffix is that of a module's file; its name is the SHA-256 in lower-case hex.
const suffix = ".wasm"

// Open opens the archive in dir, making it where it is missing.
func Open(dir string) (*Archive, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the archive of policies: %w", err)
	}
	return &Archive{dir}, nil
}

// Put keeps a module and returns its digest.
func (a *Archive) Put(wasm []byte) (string, error) {
	if len(wasm) > meter.MaxModule {
		return "", fmt.Errorf("keep a policy's module: it has more than %d bytes", meter.MaxModule)
	}
	sum := sha256.Sum256(wasm)
	digest := hex.EncodeToString(sum[:])
	if _, err := a.Get(digest); err == nil {
		return digest, nil
	}
	if err := durable.WriteFile(a.path(digest), wasm, 0o400); err != nil {
		return "", fmt.Errorf("keep a policy's module: %w", err)
	}
	return digest, nil
}

// Get returns the module with that digest. A file that is not what its name says is an error.
func (a *Archive) Get(digest string) ([]byte, error) {
	if !isDigest(digest) {
		return nil, fmt.Errorf("%q is no SHA-256 in lower-case hex", digest)
	}
	f, err := os.Open(a.path(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the archive of policies has no module %s: %w", digest, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	wasm, err := io.ReadAll(io.LimitReader(f, meter.MaxModule+1))
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", digest, err)
	}
	if sum := sha256.Sum256(wasm); hex.EncodeToString(sum[:]) != digest {
		return nil, fmt.Errorf("%s is not the module that its name says: it was changed on the disk", a.path(digest))
	}
	return wasm, nil
}

// Prune removes the modules that keep does not want and that are older than age.
func (a *Archive) Prune(age time.Duration, keep func(digest string) bool) error {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return fmt.Errorf("prune the archive of policies: %w", err)
	}
	var errs []error
	for _, e := range entries {
		digest, module := strings.CutSuffix(e.Name(), suffix)
		if module = module && isDigest(digest); module && keep(digest) || !module && !strings.HasPrefix(e.Name(), durable.DraftPrefix) {
			continue
		}
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || time.Since(info.ModTime()) < age {
			continue
		}
		errs = append(errs, os.Remove(filepath.Join(a.dir, e.Name())))
	}
	return errors.Join(errs...)
}

func (a *Archive) path(digest string) string { return filepath.Join(a.dir, digest+suffix) }

func isDigest(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == sha256.Size && strings.ToLower(s) == s
}
