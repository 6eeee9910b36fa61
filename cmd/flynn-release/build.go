package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/policy/author"
)

// commandTimeout bounds one command; the first build of a target compiles everything.
const commandTimeout = 20 * time.Minute

// lean are the build tags of the programs: those of the justfile, and one that embeds the time zones, which neither every machine nor an image
// from scratch has.
const lean = "urfave_cli_no_template,grpcnotrace,timetzdata"

// output runs a command and returns what it prints.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failed.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w", name, strings.Join(args[:min(len(args), 3)], " "), err)
	}
	return string(out), nil
}

// goBuild builds packages into a folder.
func (r *release) goBuild(ctx context.Context, t target, out string, packages ...string) error {
	args := []string{"build", "-trimpath", "-buildvcs=false", "-tags", lean, "-ldflags", r.linker(r.releaseKey), "-o", out + string(filepath.Separator)}
	env := []string{"CGO_ENABLED=0", "GOFLAGS=", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOAMD64=v1", "GOARM64=v8.0"}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	_, err := output(ctx, r.source, env, "go", append(args, packages...)...)
	return err
}

// buildTools builds the tools of tools.mod that a release needs.
func (r *release) buildTools(ctx context.Context) error {
	dir := filepath.Join(r.work, "tools")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	_, err := output(ctx, r.source, []string{"CGO_ENABLED=0", "GOFLAGS="}, "go", "build", "-modfile=tools.mod", "-trimpath", "-buildvcs=false",
		"-o", dir+string(filepath.Separator), "github.com/goreleaser/nfpm/v2/cmd/nfpm", "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod")
	return err
}

func (r *release) tool(name string) string { return filepath.Join(r.work, "tools", name) }

// policyDirs returns the folders of the first-party policies.
func (r *release) policyDirs() ([]string, error) {
	return foldersWith(r.source, "policies", "policy.toml")
}

// pluginDirs returns the folders of the first-party plugins.
func (r *release) pluginDirs() ([]string, error) {
	return foldersWith(r.source, "plugins", "plugin.toml")
}

func foldersWith(root, below, file string) (dirs []string, err error) {
	found, err := filepath.Glob(filepath.Join(root, below, "*", file))
	for _, f := range found {
		dirs = append(dirs, filepath.Dir(f))
	}
	if err == nil && len(dirs) == 0 {
		err = fmt.Errorf("there is no %s in %s", file, filepath.Join(root, below))
	}
	return dirs, err
}

// buildPolicies compiles the policies in place, as flynn policy build does.
func (r *release) buildPolicies(ctx context.Context) error {
	dirs, err := r.policyDirs()
	for _, dir := range dirs {
		if _, err := author.Build(ctx, dir); err != nil {
			return err
		}
	}
	return err
}

// bin is the folder with the programs of a target.
func (r *release) bin(t target) string { return filepath.Join(r.work, "bin", t.String()) }

// sandboxed is the platform of the programs that run in a target's containers.
func (t target) sandboxed() target { return target{"linux", t.arch} }

func (r *release) buildPrograms(ctx context.Context) error {
	for _, t := range r.targets {
		if err := r.goBuild(ctx, t, r.bin(t), "./cmd/flynn", "./plugins/..."); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		if err := r.goBuild(ctx, t.sandboxed(), filepath.Join(r.bin(t), "sandbox"), "./cmd/flynn-sandboxd", "./cmd/flynn-probe"); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return nil
}

// shells are those for which flynn completion writes a script, and where systems look for it below their prefix.
var shells = map[string]string{
	"bash": "share/bash-completion/completions/flynn",
	"zsh":  "share/zsh/site-functions/_flynn",
	"fish": "share/fish/vendor_completions.d/flynn.fish",
}

// complete writes the scripts for the completion of command lines, which are the same on all platforms.
func (r *release) complete(ctx context.Context) error {
	own := target{runtime.GOOS, runtime.GOARCH}
	if _, err := os.Stat(filepath.Join(r.bin(own), "flynn")); err != nil {
		if err := r.goBuild(ctx, own, r.bin(own), "./cmd/flynn"); err != nil {
			return err
		}
	}
	for shell, path := range shells {
		script, err := output(ctx, r.work, nil, filepath.Join(r.bin(own), "flynn"), "completion", shell)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(r.work, "completion", path), []byte(script), 0o644); err != nil {
			return err
		}
	}
	return nil
}
