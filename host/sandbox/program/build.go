package program

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// buildTimeout bounds the build of a program.
const buildTimeout = 5 * time.Minute

// findModule looks for the module's source in the working folder, the program's folder and their parents.
func findModule() (string, error) {
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	for _, dir := range starts {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err == nil && strings.HasPrefix(string(mod), "module github.com/flynnhost/flynn\n") {
				return dir, nil
			}
		}
	}
	return "", errors.New("no source of github.com/flynnhost/flynn in or above the working folder")
}

// build builds a program and caches it under the digest of its sources.
func build(log *slog.Logger, module string, p program) (string, error) {
	digest, err := sourceDigest(module, p)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "flynn", p.name, digest, p.name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	log.Info("building a program for sandboxes", "path", path)
	draft, err := os.CreateTemp(filepath.Dir(path), "build-*")
	if err != nil {
		return "", err
	}
	draft.Close()
	defer os.Remove(draft.Name())
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w",
		"-o", draft.Name(), "./cmd/"+p.name)
	command.Dir = module
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return path, os.Rename(draft.Name(), path)
}

// sourceDigest covers the sources, the module's dependencies and the toolchain.
func sourceDigest(module string, p program) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOARCH)
	for _, root := range append([]string{"go.mod"}, p.sources...) {
		err := filepath.WalkDir(filepath.Join(module, root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			fmt.Fprintln(sum, filepath.Base(path), len(content))
			sum.Write(content)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:12]), nil
}
