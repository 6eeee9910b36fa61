package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/internal/schema"
)

// Settings is the schema of a plugin's settings, which config.schema of its manifest names. The host checks settings against it before a
// process of the plugin starts.
type Settings struct {
	file   string
	schema *schema.Schema // nil: everything is valid
}

// SettingError is an error in the settings of an instance.
type SettingError struct {
	// Key is the path from the instance's table; an element of a list is "[0]". It is empty for the settings as a whole.
	Key []string
	// Problem says what is wrong, without quoting the setting.
	Problem string
	// Known are the valid keys, if the key is unknown.
	Known []string
}

// Check returns the errors in settings.
func (s *Settings) Check(settings map[string]any) ([]SettingError, error) {
	if s.schema == nil {
		return nil, nil
	}
	text, err := encodeSettings(settings)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("read the settings back: %w", err)
	}
	var out []SettingError
	for _, d := range s.schema.Differences(value) {
		e := SettingError{Key: keyIn(value, d.Path), Problem: d.Problem}
		if d.Unknown {
			e.Known = s.schema.Keys(d.Path[:len(d.Path)-1]...)
		}
		out = append(out, e)
	}
	return out, nil
}

// Fields returns the keys that the schema names, the required ones first.
func (s *Settings) Fields() []schema.Field {
	if s.schema == nil {
		return nil
	}
	return s.schema.Fields()
}

// encodeSettings encodes settings as a plugin gets them.
func encodeSettings(settings map[string]any) ([]byte, error) {
	if settings == nil {
		return []byte("{}"), nil
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("encode the settings: %w", err)
	}
	if len(text) > maxSettings {
		return nil, fmt.Errorf("the settings have %d bytes, at most %d", len(text), maxSettings)
	}
	return text, nil
}

// keyIn marks the elements of lists on a path through a value.
func keyIn(value any, path []string) []string {
	key := make([]string, len(path))
	for i, p := range path {
		key[i] = p
		switch v := value.(type) {
		case map[string]any:
			value = v[p]
		case []any:
			key[i] = "[" + p + "]"
			if n, err := strconv.Atoi(p); err == nil && n >= 0 && n < len(v) {
				value = v[n]
			}
		}
	}
	return key
}

// dotted writes a key as in flynn.toml.
func dotted(key []string) string {
	var b strings.Builder
	for i, k := range key {
		if element := strings.HasPrefix(k, "["); !element {
			if i > 0 {
				b.WriteByte('.')
			}
			k = toml.Key{k}.String()
		}
		b.WriteString(k)
	}
	return b.String()
}

// Settings reads the schema of one installed version of a plugin; for "" that of the version that would start now.
func (s *Store) Settings(name, version string) (*Settings, error) {
	if version == "" && s.Awaits(name) {
		return s.shelvedSettings(name)
	}
	p, err := s.loadVersion(name, version)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.settings()
}

// ReadSettings reads the schema of the plugin in a folder.
func ReadSettings(dir string) (*Settings, error) {
	p, err := loadDev(dir, AllKinds())
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.settings()
}

// settings compiles the schema of a plugin.
func (p *pack) settings() (*Settings, error) {
	t, err := openTree(p.dir, nil)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	return t.settings(p.manifest, p.schema)
}

// settings reads and compiles the schema that a manifest names; want is its digest, "" if it is unknown.
func (t *tree) settings(m Manifest, want string) (*Settings, error) {
	out := &Settings{file: m.Config.Schema}
	if out.file == "" {
		return out, nil
	}
	f, err := t.Open(out.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, schema.MaxBytes+1))
	if err == nil && len(text) <= schema.MaxBytes && want != "" && digest.Of(text) != want {
		err = errors.New("it is not the file that was verified")
	}
	if err == nil {
		out.schema, err = schema.Compile(text, schema.Settings)
	}
	if err != nil {
		return nil, fmt.Errorf("config.schema %q of plugin %s %s: %w", out.file, m.Name, m.Version, err)
	}
	return out, nil
}

// agrees checks the settings of an instance against the schema of its plugin, before the plugin sees them.
func (h *Host) agrees(p *pack, i Instance) error {
	s, err := p.settings()
	if err != nil {
		return err
	}
	wrong, err := s.Check(i.Settings)
	if err != nil || len(wrong) == 0 {
		return err
	}
	var all []string
	for _, e := range wrong {
		all = append(all, h.located(i, e.Key, dotted(e.Key), e.Problem))
	}
	return fmt.Errorf("%s: correct the configuration, and flynn starts it at the next reload", strings.Join(all, "; "))
}

// located is the text of an error with its place in the configuration. path is the key as people write it.
func (h *Host) located(i Instance, key []string, path, problem string) string {
	section := h.config.Kinds.Get(i.Kind).Section()
	at := section + "." + i.Name
	if path != "" {
		at += "." + path
	}
	if h.config.Where != nil {
		at = h.config.Where(section, i.Name, key) + at
	}
	return at + ": " + problem
}
