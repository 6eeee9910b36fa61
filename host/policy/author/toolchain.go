package author

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/flynnhost/flynn/sdk"
	"golang.org/x/mod/semver"
)

// oldestGo is the first release with go:wasmexport.
const oldestGo = "go1.24"

// compileC uses clang and wasm-ld apart: the clang driver would run any wasm-opt that it finds, and old ones
// break the module.
func compileC(ctx context.Context, m Manifest, dir, out string) error {
	return compileCWith(ctx, m, dir, out, lineTables)
}

// compileCWith adds flags that depend on the policy's folder and on that of flynn.h.
func compileCWith(ctx context.Context, m Manifest, dir, out string, more func(dir, include string) []string) error {
	clang, err := findTool("clang", "clang-22", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14")
	if err != nil {
		return fmt.Errorf("%w: install it, on Debian with: apt install clang lld", err)
	}
	linker, err := findTool("wasm-ld", strings.Replace(filepath.Base(clang), "clang", "wasm-ld", 1))
	if err != nil {
		return fmt.Errorf("%w: install it, on Debian with: apt install lld", err)
	}
	include, err := headerDir()
	if err != nil {
		return err
	}
	defer os.RemoveAll(include)
	object := out + ".o"
	args := append([]string{"--target=wasm32", "-O2", "-Wall", "-Wextra", "-ffreestanding", "-mbulk-memory", "-mmutable-globals", "-I", include},
		more(dir, include)...)
	if err := run(ctx, dir, nil, clang, append(args, "-c", "-o", absolute(object), m.Build.Source)...); err != nil {
		return err
	}
	return run(ctx, dir, nil, linker, "--no-entry", "-z", "stack-size=16384", "--stack-first", "-o", absolute(out), absolute(object))
}

// headerDir is a folder with this Flynn's flynn.h, for sources that have none beside them.
func headerDir() (string, error) {
	header, err := fs.ReadFile(sdk.PolicySources, "policy/c/flynn.h")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "flynn-header-*")
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "flynn.h"), header, 0o644)
}

func compileGo(ctx context.Context, m Manifest, dir, out string) error {
	_, err := compileGoWith(ctx, m, dir, out)
	return err
}

// compileGoWith adds flags, and returns what the compiler said.
func compileGoWith(ctx context.Context, m Manifest, dir, out string, more ...string) (said []byte, err error) {
	const advice = "install it from https://go.dev/dl, or on Debian 12 with: apt install -t bookworm-backports golang-go"
	tool, err := findTool("go")
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, advice)
	}
	version, err := exec.CommandContext(ctx, tool, "env", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", tool, err)
	}
	have := strings.TrimSpace(string(version))
	if tooOld(have) {
		return nil, fmt.Errorf("%s is %s, a policy needs %s or newer: %s", tool, have, oldestGo, advice)
	}
	args := append([]string{"build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false"}, more...)
	return runHeard(ctx, dir, []string{"GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0"}, tool, append(args, "-o", absolute(out), m.Build.Source)...)
}

// tooOld compares releases; a development version has no number and passes.
func tooOld(version string) bool {
	v := "v" + strings.TrimPrefix(version, "go")
	return semver.IsValid(v) && semver.Compare(v, "v"+strings.TrimPrefix(oldestGo, "go")) < 0
}

// findTool returns the first of the names that PATH has.
func findTool(names ...string) (string, error) {
	for _, n := range names {
		if path, err := exec.LookPath(n); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is missing", names[0])
}

// run runs a compiler in the policy's folder. What it says on standard error is the error.
func run(ctx context.Context, dir string, env []string, name string, args ...string) error {
	_, err := runHeard(ctx, dir, env, name, args...)
	return err
}

// runHeard is run with what the compiler says when it succeeds.
func runHeard(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(os.Environ(), env...), 5*time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(name), context.Cause(ctx))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("%s failed:\n%s", filepath.Base(name), strings.TrimSpace(said.String()))
	}
	return said.Bytes(), err
}

// absolute is for programs that run in another folder. A working directory that is gone shows when they run.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
