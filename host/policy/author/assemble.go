package author

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Assembler builds policies as a release has them.
type Assembler struct{}

// Assemble builds the module of the policy in the folder source, and fills the empty folder into with it, the policy's manifest, its cases
// and what it says about itself.
func (Assembler) Assemble(ctx context.Context, source, into string) error {
	m, err := LoadManifest(source)
	if err != nil {
		return err
	}
	for _, pattern := range []string{manifestFile, "README.md", "cases/*.toml", "cases/*.golden"} {
		if err := copyMatching(os.DirFS(source), pattern, into); err != nil {
			return err
		}
	}
	l, ok := languageNamed(m.Language)
	if !ok {
		return copyMatching(os.DirFS(source), m.Build.Output, into)
	}
	out := m.modulePath(into)
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	err = replace(out, func(temp string) error { return l.compile(ctx, m, source, temp) })
	if err != nil {
		return fmt.Errorf("it is written in %s: %w", m.Language, err)
	}
	return nil
}

// copyMatching copies files below one folder to the same places below another.
func copyMatching(from fs.FS, pattern, into string) error {
	names, err := fs.Glob(from, pattern)
	if err != nil {
		return err
	}
	for _, name := range names {
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		path := filepath.Join(into, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// ModuleOf returns the path of the module of the policy in a folder.
func ModuleOf(dir string) (string, error) {
	m, err := LoadManifest(dir)
	return m.modulePath(dir), err
}
