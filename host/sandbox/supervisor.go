package sandbox

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// supervisorName is the file name of cmd/flynn-sandboxd.
const supervisorName = "flynn-sandboxd"

// program is one that runs in containers, and what it is built from.
type program struct {
	name    string
	sources []string
}

// buildTimeout bounds the building of a program.
const buildTimeout = 5 * time.Minute

// FindSupervisor returns the path of flynn-sandboxd: the one beside the running program, or, in a
// checkout with a Go toolchain at hand, one built from source and kept in the user's cache.
func FindSupervisor(log *slog.Logger) (string, error) {
	return find(log, program{supervisorName, []string{
		"cmd/flynn-sandboxd", "host/sandbox/bridge/wire", "host/sandbox/frame", "host/sandbox/supervise",
	}})
}

// FindProbe returns the path of flynn-probe, which verification runs in sandboxes, in the same way.
func FindProbe(log *slog.Logger) (string, error) {
	return find(log, program{"flynn-probe", []string{"cmd/flynn-probe"}})
}

func find(log *slog.Logger, p program) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", p.name, err)
	}
	sibling := filepath.Join(filepath.Dir(exe), p.name)
	unfit := checkStatic(sibling)
	if unfit == nil {
		return sibling, nil
	}
	if !errors.Is(unfit, fs.ErrNotExist) {
		log.Warn("a program for sandboxes is of no use", "program", p.name, "error", unfit)
	}
	module, err := findModule()
	if err != nil {
		return "", fmt.Errorf("find %s: %w; it cannot be built either (%w): install one built with CGO_ENABLED=0 beside the program",
			p.name, unfit, err)
	}
	path, err := buildProgram(log, module, p)
	if err != nil {
		return "", fmt.Errorf("build %s: %w: install it beside the program instead", p.name, err)
	}
	return path, nil
}

// checkStatic refuses a program that needs a loader, or is none for Linux: images without the C library it was linked
// with cannot start it, and say only that there is no such file.
func checkStatic(path string) error {
	program, err := elf.Open(path)
	if unreadable := (*fs.PathError)(nil); errors.As(err, &unreadable) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s is no program for Linux: %w", path, err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is dynamically linked and cannot start in most images: build it with CGO_ENABLED=0", path)
		}
	}
	return nil
}

// findModule looks for the module's source upwards from the working folder and the program.
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

// buildProgram builds into the cache, under the digest of the sources.
func buildProgram(log *slog.Logger, module string, p program) (string, error) {
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

// installSupervisor copies the program into dir under its digest, read-only, so that a later build
// does not change what running containers have mounted.
func installSupervisor(source, dir string) (path, digest string, err error) {
	in, err := os.Open(source)
	if err != nil {
		return "", "", fmt.Errorf("install %s: %w", supervisorName, err)
	}
	defer in.Close()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", fmt.Errorf("install %s: %w", supervisorName, err)
	}
	draft, err := os.CreateTemp(dir, "copy-*")
	if err != nil {
		return "", "", fmt.Errorf("install %s: %w", supervisorName, err)
	}
	defer os.Remove(draft.Name())
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(draft, sum), in)
	err = errors.Join(err, draft.Chmod(0o555), draft.Close())
	digest = hex.EncodeToString(sum.Sum(nil)[:8])
	path = filepath.Join(dir, supervisorName+"-"+digest)
	if err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		return "", "", fmt.Errorf("install %s: %w", supervisorName, err)
	}
	return path, digest, nil
}
