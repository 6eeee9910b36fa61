package author

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// buildTimeout bounds one build; a Go policy takes seconds on a cold cache.
const buildTimeout = 5 * time.Minute

// Artifact is a built module.
type Artifact struct {
	Policy string        `json:"policy"`
	Path   string        `json:"path"`
	Bytes  int64         `json:"bytes"`
	SHA256 string        `json:"sha256"`
	Took   time.Duration `json:"took_ns"`
}

// Build compiles the policy in dir. It replaces the module atomically, so that a host that watches the file never reads half of it.
func Build(ctx context.Context, dir string) (Artifact, error) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	begin := time.Now()
	m, err := LoadManifest(dir)
	if err != nil {
		return Artifact{}, err
	}
	if err := compile(ctx, m, dir); err != nil {
		return Artifact{}, fmt.Errorf("build policy %s: %w", m.Name, err)
	}
	path := m.modulePath(dir)
	wasm, err := readModule(m, dir)
	if err != nil {
		return Artifact{}, err
	}
	sum := sha256.Sum256(wasm)
	return Artifact{m.Name, path, int64(len(wasm)), hex.EncodeToString(sum[:]), time.Since(begin)}, nil
}

func compile(ctx context.Context, m Manifest, dir string) error {
	l, ok := languageNamed(m.Language)
	if !ok {
		return nil // ready-made
	}
	return replace(m.modulePath(dir), func(out string) error { return l.compile(ctx, m, dir, out) })
}

// replace makes write create a file beside path, and moves it to path if that succeeds.
func replace(path string, write func(temp string) error) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".build-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	temp := filepath.Join(dir, filepath.Base(path))
	if err := write(temp); err != nil {
		return err
	}
	if err := syncFile(temp); err != nil {
		return err
	}
	if err := placeMap(temp, path); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// syncFile writes the file's content to the disk, which has to happen before it is renamed.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o644), f.Sync(), f.Close())
}

// readModule reads the built module of a policy.
func readModule(m Manifest, dir string) ([]byte, error) {
	wasm, err := os.ReadFile(m.modulePath(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is not built: run flynn policy dev build %s", m.modulePath(dir), dir)
	}
	return wasm, err
}
