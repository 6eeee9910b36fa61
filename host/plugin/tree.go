package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"

	"github.com/flynnhost/flynn/host/install/folder"
)

// tree is a plugin's folder.
type tree struct {
	*folder.Folder
	kinds Kinds
}

func openTree(dir string, kinds Kinds) (*tree, error) {
	d, err := folder.Open(dir, limits)
	if err != nil {
		return nil, err
	}
	return &tree{d, kinds}, nil
}

// manifest reads plugin.toml.
func (t *tree) manifest() (Manifest, error) {
	text, err := t.Read(ManifestName, maxManifest)
	if err != nil {
		return Manifest{}, err
	}
	return t.kinds.parse(text)
}

// lockedManifest is manifest for a locked version, and verifies that file.
func (t *tree) lockedManifest(l Locked) (Manifest, error) {
	f, err := t.VerifyFile(ManifestName, l.Files[ManifestName])
	if err != nil {
		return Manifest{}, err
	}
	_ = f.Close()
	return t.manifest()
}

// complete checks that the files that the manifest names for this machine exist.
func (t *tree) complete(m Manifest) error {
	c, err := m.command()
	if err != nil {
		return err
	}
	if program, ok := c.file(); ok {
		mode, err := t.named(program)
		if err != nil {
			return err
		}
		if !folder.Program(mode) && runtime.GOOS != "windows" {
			return fmt.Errorf("%s names the program %s, which is not executable: run chmod +x on it", ManifestName, program)
		}
	}
	if m.Config.Schema == "" {
		return nil
	}
	_, err = t.named(m.Config.Schema)
	return err
}

// named returns the mode of a file that the manifest names.
func (t *tree) named(name string) (fs.FileMode, error) {
	mode, err := t.Regular(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("%s names a file that is missing: %w", ManifestName, err)
	case err != nil:
		return 0, fmt.Errorf("%s names %s: %w", ManifestName, name, err)
	}
	return mode, nil
}

// everyProgram checks that the programs of all platforms exist, for a package that is passed on.
func (t *tree) everyProgram(m Manifest) error {
	for _, platform := range slices.Sorted(maps.Keys(m.Exec)) {
		program, ok := m.Exec[platform].file()
		if !ok {
			continue
		}
		if _, err := t.Regular(program); err != nil {
			return fmt.Errorf("exec.%s: %w: build it, or remove the platform from %s", platform, err, ManifestName)
		}
	}
	return nil
}
