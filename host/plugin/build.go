package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// unbuilt adds the command that builds the program to the error of a missing program, if its source is there.
func (t *tree) unbuilt(dir string, m Manifest, err error) error {
	if !errors.Is(err, fs.ErrNotExist) || !t.hasGo() {
		return err
	}
	c, cerr := m.command()
	program, ok := c.file()
	if cerr != nil || !ok {
		return err
	}
	return fmt.Errorf("its program %s is not built yet: run flynn plugin dev build %s", program, shorter(dir))
}

// shorter names a folder as the operator would.
func shorter(dir string) string {
	here, err := os.Getwd()
	if err != nil {
		return dir
	}
	short, err := filepath.Rel(here, dir)
	if err != nil || strings.HasPrefix(short, "..") {
		return dir
	}
	return "." + string(filepath.Separator) + short
}

// hasGo reports whether the plugin's folder holds the source of a Go program.
func (t *tree) hasGo() bool {
	names, err := fs.Glob(t.FS(), "*.go")
	return err == nil && len(names) > 0
}

// Build compiles the Go program in dir to the path that plugin.toml has for this machine, and returns that path. The compiler's output
// goes to out.
func Build(ctx context.Context, dir string, out io.Writer) (string, error) {
	t, err := openTree(dir, AllKinds())
	if err != nil {
		return "", fmt.Errorf("build a plugin: %w", err)
	}
	defer t.Close()
	m, err := t.manifest()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", dir, err)
	}
	c, err := m.command()
	if err != nil {
		return "", fmt.Errorf("build %s: %w", dir, err)
	}
	program, ok := c.file()
	if !ok || !t.hasGo() {
		return "", fmt.Errorf("build %s: it has no Go program to build: there is no .go file, or exec names none of its files", dir)
	}
	path := filepath.Join(dir, filepath.FromSlash(program))
	if err := t.Root().MkdirAll(filepath.FromSlash(filepath.Dir(program)), 0o755); err != nil {
		return "", fmt.Errorf("build %s: %w", dir, err)
	}
	if err := compile(ctx, dir, path, Platform(), out); err != nil {
		return "", fmt.Errorf("build %s: %w", dir, err)
	}
	return path, nil
}

// compile compiles the Go program in dir to the path program, for a platform such as linux-amd64.
func compile(ctx context.Context, dir, program, platform string, out io.Writer) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	system, machine, _ := strings.Cut(platform, "-")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", program, ".")
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, out, out, buildDelay
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+system, "GOARCH="+machine)
	err = cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("there is no go on the PATH: install Go from https://go.dev/dl, or use a built release of the plugin")
	case ctx.Err() != nil:
		return fmt.Errorf("go build: %w", context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("go build: %w", err)
	}
	return nil
}

// buildDelay is how long an ended compiler's children may hold its output open.
const buildDelay = 5 * time.Second
