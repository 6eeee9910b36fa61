package program

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Install copies a supervisor into dir under its digest, read-only, so that a later build does not change the file that running containers
// have mounted.
func Install(source, dir string) (path, digest string, err error) {
	in, err := os.Open(source)
	if err != nil {
		return "", "", fmt.Errorf("install %s: %w", Supervisor, err)
	}
	defer in.Close()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", fmt.Errorf("install %s: %w", Supervisor, err)
	}
	draft, err := os.CreateTemp(dir, "copy-*")
	if err != nil {
		return "", "", fmt.Errorf("install %s: %w", Supervisor, err)
	}
	defer os.Remove(draft.Name())
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(draft, sum), in)
	err = errors.Join(err, draft.Chmod(0o555), draft.Close())
	digest = hex.EncodeToString(sum.Sum(nil)[:8])
	path = filepath.Join(dir, Supervisor+"-"+digest)
	if err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		return "", "", fmt.Errorf("install %s: %w", Supervisor, err)
	}
	return path, digest, nil
}
