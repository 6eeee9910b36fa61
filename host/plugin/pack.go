package plugin

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/flynnhost/flynn/host/install/digest"
)

// errDisabled is the error of starting a disabled plugin.
var errDisabled = errors.New("the plugin is disabled")

// pack is a plugin that may run.
type pack struct {
	manifest Manifest
	locked   Locked // zero for a development folder
	dir      string
	schema   string   // digest of the settings' schema; empty without one
	program  *os.File // verified and open; nil if the command is looked up on PATH
	dev      bool
}

func (p *pack) close() {
	if p.program != nil {
		_ = p.program.Close()
	}
}

// release names what runs, by its contents. An unlocked command that is looked up on PATH has no contents to name, so each process of it is a
// release of its own.
func (p *pack) release() (string, error) {
	contents := fmt.Sprint(p.manifest.Name, p.manifest.Version, p.locked.Files)
	switch {
	case p.dev && p.program == nil:
		contents += rand.Text()
	case p.dev:
		program, err := digest.Read(io.NewSectionReader(p.program, 0, math.MaxInt64))
		if err != nil {
			return "", fmt.Errorf("read the program of plugin %s: %w", p.manifest.Name, err)
		}
		contents += program
	}
	return digest.Of([]byte(contents)), nil
}

// load verifies the active version of an installed plugin.
func (s *Store) load(name string) (*pack, error) { return s.loadVersion(name, "") }

// loadVersion verifies one installed version of a plugin, the active one for "".
func (s *Store) loadVersion(name, version string) (*pack, error) {
	l, err := s.lock.Read()
	if err != nil {
		return nil, err
	}
	c, ok := l.choice(name)
	if !ok {
		return nil, s.notInstalled(l, name)
	}
	locked, ok := l.release(name, cmp.Or(version, c.Active))
	if !ok {
		return nil, fmt.Errorf("plugin %s has no version %s installed", name, version)
	}
	if locked.Platform != "" && locked.Platform != Platform() {
		return nil, fmt.Errorf("plugin %s was installed for %s, this is %s: install it again", name, locked.Platform, Platform())
	}
	d, err := s.versions.Open(locked.dir())
	if err != nil {
		return nil, fmt.Errorf("open plugin %s: %w", name, err)
	}
	defer d.Close()
	p, err := (&tree{d, s.kinds}).pack(locked)
	if err != nil {
		return nil, fmt.Errorf("verify plugin %s %s: %w: run flynn plugin remove --force %s, then flynn plugin install DIR", name, locked.Version, err, name)
	}
	p.dir = s.versions.Path(locked.dir())
	return p, nil
}

// pack verifies the files against the lock, including the manifest, and keeps the program open.
func (t *tree) pack(l Locked) (*pack, error) {
	m, err := t.lockedManifest(l)
	if err != nil {
		return nil, err
	}
	if m.Name != l.Name || m.Version != l.Version {
		return nil, fmt.Errorf("%s says %s %s", ManifestName, m.Name, m.Version)
	}
	c, err := m.command()
	if err != nil {
		return nil, err
	}
	program, _ := c.file()
	kept, err := t.Verify(l.Files, program)
	if err != nil {
		return nil, err
	}
	return &pack{manifest: m, locked: l, schema: l.Files[m.Config.Schema], program: kept}, nil
}

// loadDev opens a development folder without verifying anything.
func loadDev(dir string, kinds Kinds) (*pack, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	t, err := openTree(dir, kinds)
	if err != nil {
		return nil, fmt.Errorf("open the development folder: %w", err)
	}
	defer t.Close()
	m, err := t.manifest()
	if err == nil {
		if err = t.complete(m); err != nil {
			err = t.unbuilt(dir, m, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("development folder %s: %w", dir, err)
	}
	p := &pack{manifest: m, dir: dir, dev: true}
	c, err := m.command()
	if err != nil {
		return nil, err
	}
	if m.Config.Schema != "" {
		if p.schema, err = t.Digest(m.Config.Schema); err != nil {
			return nil, err
		}
	}
	if program, ok := c.file(); ok {
		p.program, err = t.Open(program)
	}
	return p, err
}

// file is the program's file, if it is not looked up on PATH.
func (c Command) file() (string, bool) {
	if len(c) == 0 || !strings.Contains(c[0], "/") {
		return "", false
	}
	return c[0], true
}
