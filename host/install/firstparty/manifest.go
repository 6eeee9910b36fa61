package firstparty

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/BurntSushi/toml"

	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/internal/durable"
)

// ManifestName is the file in lib/flynn that lists what a release has, by digest.
const ManifestName = "manifest.json"

// maxManifest bounds that file, in bytes.
const maxManifest = 1 << 20

// Entry is one plugin or policy of a release.
type Entry struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256"` // Digest of its folder
}

// Manifest is the content of the file called ManifestName. Its keys are names.
type Manifest struct {
	Plugins  map[string]Entry `json:"plugins"`
	Policies map[string]Entry `json:"policies"`
}

func (m Manifest) of(k Kind) map[string]Entry {
	if k == Policies {
		return m.Policies
	}
	return m.Plugins
}

// manifest reads the list of the release.
func (s Shelf) manifest() (m Manifest, err error) {
	name := filepath.Join(s.release, ManifestName)
	text, err := os.ReadFile(name)
	if err == nil && len(text) > maxManifest {
		err = fmt.Errorf("it has more than %d bytes", maxManifest)
	}
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		err = d.Decode(&m)
	}
	if err == nil {
		err = m.problems()
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w: install Flynn again", name, err)
	}
	return m, nil
}

// problems checks what becomes part of a path.
func (m Manifest) problems() error {
	var wrong []error
	for _, k := range []Kind{Plugins, Policies} {
		for name, e := range m.of(k) {
			if !validName(name) || !digest.Valid(e.SHA256) {
				wrong = append(wrong, fmt.Errorf("%q is not a %s with a digest", name, k.one()))
			}
		}
	}
	return errors.Join(wrong...)
}

func validName(name string) bool {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return false
		}
	}
	return name != ""
}

// entry is the line of the release's list about one.
func (s Shelf) entry(k Kind, name string) (Entry, error) {
	m, err := s.manifest()
	if err != nil {
		return Entry{}, err
	}
	e, ok := m.of(k)[name]
	if !ok {
		return Entry{}, fmt.Errorf("%s names no %s %q", filepath.Join(s.release, ManifestName), k.one(), name)
	}
	return e, nil
}

// WriteManifest lists what lies in plugins and policies below dir, the folder lib/flynn of a release. From then on these folders must not
// change.
func WriteManifest(dir string) error {
	m := Manifest{Plugins: map[string]Entry{}, Policies: map[string]Entry{}}
	for _, k := range []Kind{Plugins, Policies} {
		found, err := os.ReadDir(filepath.Join(dir, string(k)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("list a release: %w", err)
		}
		for _, f := range found {
			if m.of(k)[f.Name()], err = describe(k, filepath.Join(dir, string(k), f.Name())); err != nil {
				return fmt.Errorf("list a release: %w", err)
			}
		}
	}
	if err := m.problems(); err != nil {
		return fmt.Errorf("list a release: %w", err)
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, ManifestName), append(text, '\n'), 0o644)
}

func describe(k Kind, dir string) (e Entry, err error) {
	var about struct{ Name, Version string }
	name := filepath.Join(dir, k.manifest())
	if _, err := toml.DecodeFile(name, &about); err != nil {
		return e, err
	}
	if about.Name != filepath.Base(dir) || about.Version == "" {
		return e, fmt.Errorf("%s says %q %q: the folder must have the name, and there must be a version", name, about.Name, about.Version)
	}
	e.Version = about.Version
	e.SHA256, err = Digest(dir)
	return e, err
}
