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

	"golang.org/x/sync/errgroup"

	"github.com/flynnhost/flynn/host/install/firstparty"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/policy/author"
)

// buildEnv decides the bytes of Go programs, whatever the environment of the person who builds has.
var buildEnv = map[string]string{"CGO_ENABLED": "0", "GOFLAGS": "", "GOAMD64": "v1", "GOARM64": "v8.0", "GOEXPERIMENT": "", "GOWORK": "off"}

// setEnv sets buildEnv for the go commands of this process, also for those of the packages that build plugins and policies.
func setEnv() error {
	for name, value := range buildEnv {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// commandTimeout bounds one command; the first build of a target compiles everything.
const commandTimeout = 20 * time.Minute

// lean are the build tags of the programs: those of the justfile, and one that embeds the time zones into flynn, which neither every machine
// nor an image from scratch has. Go's own tag for that has everything compiled anew that imports time.
const lean = "urfave_cli_no_template,grpcnotrace,embedtz"

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
	args := []string{"build", "-trimpath", "-buildvcs=false", "-tags", lean, "-ldflags", r.linker(), "-o", out + string(filepath.Separator)}
	env := []string{"GOOS=" + t.os, "GOARCH=" + t.arch}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	_, err := output(ctx, r.source, env, "go", append(args, packages...)...)
	return err
}

// buildTools has the go command build the tools of tools.mod that a release needs. It keeps the programs for the next release.
func (r *release) buildTools(ctx context.Context) error {
	r.tools = map[string]string{}
	for _, name := range []string{"nfpm", "cyclonedx-gomod"} {
		path, err := output(ctx, r.source, []string{"GOFLAGS=-trimpath"}, "go", "tool", "-modfile=tools.mod", "-n", name)
		if err != nil {
			return err
		}
		r.tools[name] = strings.TrimSpace(path)
	}
	return nil
}

// named returns the names of the folders below another one that have a file.
func named(root, file string) (names []string, err error) {
	found, err := filepath.Glob(filepath.Join(root, "*", file))
	for _, f := range found {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("there is no %s in the folders of %s", file, root)
	}
	return names, err
}

// assemble builds all plugins or policies into the folder to, as many at once as there are processors.
func (r *release) assemble(ctx context.Context, k firstparty.Kind, manifest string, b firstparty.Builder, to string) error {
	root := filepath.Join(r.source, string(k))
	names, err := named(root, manifest)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for _, name := range names {
		group.Go(func() error {
			into := filepath.Join(to, name)
			if err := os.MkdirAll(into, 0o755); err != nil {
				return err
			}
			if err := b.Assemble(ctx, filepath.Join(root, name), into); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// buildPolicies builds the policies, which are the same on all platforms.
func (r *release) buildPolicies(ctx context.Context) error {
	return r.assemble(ctx, firstparty.Policies, "policy.toml", author.Assembler{}, r.policies())
}

// plugins is the folder with the built plugins of a target.
func (r *release) plugins(t target) string { return filepath.Join(r.bin(t), "plugins") }

// policies is the folder with the built policies.
func (r *release) policies() string { return filepath.Join(r.work, "policies") }

// bin is the folder with the programs of a target.
func (r *release) bin(t target) string { return filepath.Join(r.work, "bin", t.String()) }

// sandboxed is the platform of the programs that run in a target's containers.
func (t target) sandboxed() target { return target{"linux", t.arch} }

func (r *release) buildPrograms(ctx context.Context) error {
	for _, t := range r.targets {
		err := r.goBuild(ctx, t, r.bin(t), "./cmd/flynn")
		if err == nil {
			err = r.goBuild(ctx, t.sandboxed(), filepath.Join(r.bin(t), "sandbox"), "./cmd/flynn-sandboxd", "./cmd/flynn-sandboxd-listen", "./cmd/flynn-probe")
		}
		if err == nil {
			err = r.assemble(ctx, firstparty.Plugins, "plugin.toml", plugin.Assembler{Platform: t.String()}, r.plugins(t))
		}
		if err != nil {
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
