package author

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// findTool returns the first of the names that PATH has.
func findTool(names ...string) (string, error) {
	for _, n := range names {
		if path, err := exec.LookPath(n); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is missing", names[0])
}

// run runs a compiler in the policy's folder. If it fails, the error is what it printed.
func run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	_, err := output(ctx, dir, env, name, args...)
	return err
}

// output is run that returns what the program printed.
func output(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(os.Environ(), env...), 5*time.Second
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(name), context.Cause(ctx))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("%s failed:\n%s", filepath.Base(name), strings.TrimSpace(printed.String()))
	}
	return printed.Bytes(), err
}

// absolute is for programs that run in another folder. A working directory that is gone shows when they run.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// upwards yields a folder and all those above it.
func upwards(dir string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at := absolute(dir); yield(at) && at != filepath.Dir(at); at = filepath.Dir(at) {
		}
	}
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}
