package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/install/firstparty"
)

// Provide installs a plugin that comes with Flynn at its first use, and again when Flynn comes with another build of it. A version that
// a person has installed under the same name, or has gone back to, stays.
func (s *Store) Provide(ctx context.Context, log *slog.Logger, name string) error {
	if !s.Awaits(name) {
		return nil
	}
	shelf := s.shelf()
	stamp, err := shelf.Stamp(firstparty.Plugins, name)
	if err != nil {
		return err
	}
	got, err := shelf.Get(ctx, log, firstparty.Plugins, name, Assembler{Platform: Platform()})
	if err != nil {
		return err
	}
	p, err := s.InstallFolder(got.Dir, Options{
		Source: shelf.Origin(firstparty.Plugins, name), Name: name, FirstParty: stamp, FirstPartyDigest: got.Digest,
	})
	if err == nil {
		log.Info("installed a plugin that comes with flynn", "plugin", name, "version", p.Version, "digest", got.Digest)
	}
	return err
}

// Awaits reports whether Provide would install a plugin.
func (s *Store) Awaits(name string) bool {
	l, err := s.lock.Read()
	return err == nil && l.awaits(s.shelf(), name)
}

func (l lockFile) awaits(shelf firstparty.Shelf, name string) bool {
	c, exists := l.choice(name)
	if locked, _ := l.find(name); c.Disabled || exists && locked.FirstParty == "" || !shelf.Has(firstparty.Plugins, name) {
		return false
	}
	stamp, err := shelf.Stamp(firstparty.Plugins, name)
	return err != nil || !slices.ContainsFunc(l.Releases, func(r Locked) bool { return r.Name == name && r.FirstParty == stamp })
}

// shelved opens the folder of a plugin that comes with Flynn, with the program or with its source.
func (s *Store) shelved(name string) (*tree, error) {
	shelf := s.shelf()
	if err := shelf.Check(firstparty.Plugins, name); err != nil {
		return nil, err
	}
	return openTree(shelf.Dir(firstparty.Plugins, name), s.kinds)
}

func (s *Store) shelvedManifest(name string) (Manifest, error) {
	t, err := s.shelved(name)
	if err != nil {
		return Manifest{}, err
	}
	defer t.Close()
	return t.manifest()
}

// shelvedSettings is Settings for a plugin that is not installed yet.
func (s *Store) shelvedSettings(name string) (*Settings, error) {
	t, err := s.shelved(name)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	m, err := t.manifest()
	if err != nil {
		return nil, err
	}
	return t.settings(m, "")
}

// Available is a plugin that comes with Flynn and is not in the lock.
type Available struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Source  string `json:"source"` // where it comes from
}

// Available returns the plugins that come with Flynn and are not in the lock. The configuration can name them all the same.
func (s *Store) Available() ([]Available, error) {
	l, err := s.lock.Read()
	if err != nil {
		return nil, err
	}
	shelf := s.shelf()
	var out []Available
	for _, name := range shelf.Names(firstparty.Plugins) {
		if _, ok := l.choice(name); ok {
			continue
		}
		m, err := readManifest(shelf.Dir(firstparty.Plugins, name), s.kinds)
		if err != nil {
			return nil, fmt.Errorf("read plugin %s: %w", name, err)
		}
		out = append(out, Available{m.Name, m.Version, shelf.Origin(firstparty.Plugins, name)})
	}
	return out, nil
}

func readManifest(dir string, kinds Kinds) (Manifest, error) {
	t, err := openTree(dir, kinds)
	if err != nil {
		return Manifest{}, err
	}
	defer t.Close()
	return t.manifest()
}

// Assembler builds plugins in Go as a release has them, for one platform such as linux-amd64.
type Assembler struct{ Platform string }

// Assemble builds the program of the plugin in the folder source, and fills the empty folder into with it, its manifest, the schema of its
// settings and what it says about itself.
func (a Assembler) Assemble(ctx context.Context, source, into string) error {
	t, err := openTree(source, AllKinds())
	if err != nil {
		return err
	}
	defer t.Close()
	m, err := t.manifest()
	if err != nil {
		return err
	}
	c, ok := m.Exec[a.Platform]
	if !ok {
		c = m.Exec[anyPlatform]
	}
	program, ok := c.file()
	if !ok {
		return fmt.Errorf("%s names no program for %s", ManifestName, a.Platform)
	}
	for _, name := range []string{ManifestName, m.Config.Schema, "README.md"} {
		if name == "" {
			continue
		}
		if err := copyFile(t, name, into); err != nil {
			return err
		}
	}
	path := filepath.Join(into, filepath.FromSlash(program))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	var said bytes.Buffer
	if err := compile(ctx, source, path, a.Platform, &said); err != nil {
		return errors.Join(err, wrote(said.String()))
	}
	return os.Chmod(path, 0o755)
}

// maxSaid bounds what an error repeats of a compiler's output.
const maxSaid = 4 << 10

func wrote(text string) error {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	return errors.New(text[:min(len(text), maxSaid)])
}

// copyFile copies a file of the plugin, if there is one.
func copyFile(t *tree, name, into string) error {
	content, err := t.Read(name, limits.Bytes)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	path := filepath.Join(into, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
