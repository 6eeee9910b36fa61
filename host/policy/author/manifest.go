package author

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/docker/go-units"
	"github.com/flynnhost/flynn/sdk/policy/abi"

	"github.com/flynnhost/flynn/host/policy"
)

// Manifest is a policy.toml.
type Manifest struct {
	Name        string            `toml:"name"`
	Version     string            `toml:"version"`
	Description string            `toml:"description"`
	ABI         string            `toml:"abi"`      // "flynn 1"
	Kinds       []string          `toml:"kinds"`    // route, tool
	Language    string            `toml:"language"` // one of Languages, or wasm for a module that comes ready-made
	Build       Recipe            `toml:"build"`
	Data        map[string]string `toml:"data"` // of cases that have none; a starting point for flynn.toml
	Limits      Limits            `toml:"limits"`
	// Digest is the SHA-256 of the module, Source that of what it was built from. flynn policy dev sign and pack write them.
	Digest string `toml:"digest"`
	Source string `toml:"source_digest"`
}

// Recipe says what is compiled to what.
type Recipe struct {
	Source string `toml:"source"` // the file of a C policy (policy.c), the package of a Go policy (".")
	Output string `toml:"output"` // policy.wasm
}

// Limits bound one decision; a zero value is the host's default.
type Limits struct {
	Fuel      int64    `toml:"fuel"`
	Memory    size     `toml:"memory"` // "32m"
	Depth     int      `toml:"depth"`
	HostCalls int      `toml:"host_calls"`
	Wall      duration `toml:"wall"` // "50ms"
}

var nameForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`) })

// LoadManifest reads and checks the policy.toml of a folder.
func LoadManifest(dir string) (Manifest, error) {
	path := filepath.Join(dir, manifestFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Manifest{}, fmt.Errorf("%s has no %s: is it a policy's folder? flynn policy dev new NAME makes one", dir, manifestFile)
	}
	if err != nil {
		return Manifest{}, err
	}
	m, err := ParseManifest(text)
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// ParseManifest reads and checks the text of a policy.toml.
func ParseManifest(text []byte) (Manifest, error) {
	var m Manifest
	meta, err := toml.Decode(string(text), &m)
	if err != nil {
		return Manifest{}, err
	}
	if err := unknownKeys(meta); err != nil {
		return Manifest{}, err
	}
	m.fillIn()
	return m, m.check()
}

func (m *Manifest) fillIn() {
	if m.Build.Output == "" {
		m.Build.Output = "policy.wasm"
	}
	if m.Build.Source == "" {
		l, _ := languageNamed(m.Language) // check refuses an unknown one
		m.Build.Source = l.source
	}
}

func (m *Manifest) check() error {
	all := append(Languages(), readyMade)
	switch want := fmt.Sprintf("flynn %d", abi.Major); {
	case !nameForm().MatchString(m.Name):
		return fmt.Errorf("name = %q: use lower-case words joined by hyphens", m.Name)
	case m.ABI != want:
		return fmt.Errorf("abi = %q: this flynn speaks %q", m.ABI, want)
	case len(m.Kinds) == 0:
		return fmt.Errorf(`kinds is empty: name what the policy decides, such as kinds = [%q]`, policy.KindRoute)
	case !slices.Contains(all, m.Language):
		return fmt.Errorf("language = %q: use one of %s", m.Language, strings.Join(all, ", "))
	case !filepath.IsLocal(m.Build.Output):
		return fmt.Errorf("build.output = %q: the module has to lie in the policy's folder", m.Build.Output)
	}
	for _, k := range m.Kinds {
		if k != policy.KindRoute && k != policy.KindTool {
			return fmt.Errorf("kinds has %q: use %s or %s", k, policy.KindRoute, policy.KindTool)
		}
	}
	return nil
}

// modulePath returns the path of the built module.
func (m *Manifest) modulePath(dir string) string { return filepath.Join(dir, m.Build.Output) }

// unknownKeys returns an error for a key that is not used, which is usually a typing error. Keys in the free tables are allowed: the
// decoder reports the inner keys of an untyped table as not decoded.
func unknownKeys(meta toml.MetaData, free ...toml.Key) error {
	for _, extra := range meta.Undecoded() {
		if !slices.ContainsFunc(free, func(k toml.Key) bool { return len(extra) > len(k) && slices.Equal(extra[:len(k)], k) }) {
			return fmt.Errorf("unknown key %q", extra.String())
		}
	}
	return nil
}

// size is a number of bytes, written "32m".
type size int64

func (s *size) UnmarshalText(text []byte) error {
	n, err := units.RAMInBytes(string(text))
	*s = size(n)
	return err
}

// duration is a time span, written "50ms".
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = duration(v)
	return err
}
