package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/flynnhost/flynn/host/install/firstparty"
)

// The tree of a target is what a prefix such as /usr or /usr/local gets:
//
//	bin/flynn
//	lib/flynn/flynn-sandboxd-linux-ARCH, flynn-sandboxd-listen-linux-ARCH, flynn-probe-linux-ARCH
//	lib/flynn/manifest.json         the digests of the following
//	lib/flynn/plugins/NAME/plugin.toml, bin/NAME, ...
//	lib/flynn/policies/NAME/policy.toml, policy.wasm, cases/, ...
//	share/...                       completion, docs, examples, LICENSE, README.md

// docs is where a tree has what is read and not run.
const docs = "share/doc/flynn"

func (r *release) stage(context.Context) error {
	for _, t := range r.targets {
		if err := r.stageTarget(t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return nil
}

func (r *release) stageTarget(t target) error {
	to := r.tree(t)
	lib := filepath.Join(to, "lib", "flynn")
	err := errors.Join(
		copyFile(filepath.Join(r.bin(t), "flynn"), filepath.Join(to, "bin", "flynn"), 0o755),
		copyTree(r.plugins(t), filepath.Join(lib, string(firstparty.Plugins))),
		copyTree(r.policies(), filepath.Join(lib, string(firstparty.Policies))),
		copyTree(filepath.Join(r.work, "completion"), to),
		r.stageDocs(filepath.Join(to, filepath.FromSlash(docs))),
	)
	for _, name := range []string{"flynn-sandboxd", "flynn-sandboxd-listen", "flynn-probe"} {
		err = errors.Join(err, copyFile(filepath.Join(r.bin(t), "sandbox", name), filepath.Join(lib, name+"-"+t.sandboxed().String()), 0o755))
	}
	return errors.Join(err, firstparty.WriteManifest(lib), openFolders(to))
}

// openFolders lets everybody enter the folders of a tree, whatever the umask is; packages copy their modes.
func openFolders(tree string) error {
	return filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o755)
	})
}

// examples are the folders of examples that need nothing but an installed Flynn.
var examples = []string{"quickstart", "code-only", "subagent", "docker"}

func (r *release) stageDocs(to string) error {
	err := errors.Join(
		copyMatches(r.source, to, []string{"LICENSE", "README.md", "CHANGELOG.md"}),
		copyTree(filepath.Join(r.source, "docs"), filepath.Join(to, "docs")),
		copyMatches(filepath.Join(r.source, "examples"), filepath.Join(to, "examples"), []string{"flynn.reference.toml"}),
	)
	for _, name := range examples {
		err = errors.Join(err, copyTree(filepath.Join(r.source, "examples", name), filepath.Join(to, "examples", name)))
	}
	return err
}

// copyMatches copies the files of a folder that match the patterns. One without a star must match.
func copyMatches(from, to string, patterns []string) error {
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(from, filepath.FromSlash(pattern)))
		if err != nil {
			return err
		}
		if len(found) == 0 && !strings.Contains(pattern, "*") {
			return fmt.Errorf("%s has no %s", from, pattern)
		}
		for _, f := range found {
			name, err := filepath.Rel(from, f)
			if err == nil {
				err = copyFile(f, filepath.Join(to, name), 0o644)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// copyTree copies a folder. Files are programs if their owner may execute them.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		return copyFile(path, filepath.Join(to, name), mode)
	})
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close()) // whatever the umask is
}

func writeFile(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, content, mode), os.Chmod(path, mode))
}
