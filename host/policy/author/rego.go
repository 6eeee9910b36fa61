package author

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// regoTool is the program that has OPA's compiler in it, which would make Flynn itself four times as large.
const regoTool = "flynn-rego"

// compileRego lets flynn-rego compile the folder of the policy's source.
func compileRego(ctx context.Context, m Manifest, dir, out string) error {
	args := []string{"-o", absolute(out), "-kinds", strings.Join(m.Kinds, ","), absolute(filepath.Join(dir, m.Build.Source))}
	if tool, ok := besideFlynn(regoTool); ok {
		return run(ctx, dir, nil, tool, args...)
	}
	if tool, err := findTool(regoTool); err == nil {
		return run(ctx, dir, nil, tool, args...)
	}
	root, ok := checkout(dir)
	if !ok {
		return errors.New(regoTool + " is missing: install it with: go install " + sdkModule + "/cmd/" + regoTool + "@latest")
	}
	tool, err := findTool("go")
	if err != nil {
		return fmt.Errorf("%w, which %s is built with here: install it from https://go.dev/dl", err, regoTool)
	}
	return run(ctx, root, nil, tool, append([]string{"run", "./cmd/" + regoTool}, args...)...)
}

// besideFlynn finds a program in the folder of this one.
func besideFlynn(name string) (string, bool) {
	self, err := os.Executable()
	if err != nil {
		return "", false
	}
	path, err := exec.LookPath(filepath.Join(filepath.Dir(self), name))
	return path, err == nil
}

// checkout is the folder of Flynn's own sources that dir, or the working directory, lies in.
func checkout(dir string) (string, bool) {
	for _, start := range []string{dir, "."} {
		for at := absolute(start); ; at = filepath.Dir(at) {
			if text, err := os.ReadFile(filepath.Join(at, "go.mod")); err == nil {
				if modfile.ModulePath(text) == sdkModule {
					return at, true
				}
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return "", false
}

// furnishRego has nothing to add: a policy in Rego imports nothing.
func furnishRego(string) error { return nil }
