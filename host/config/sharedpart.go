package config

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/BurntSushi/toml"
)

// SharedPart is what SharedDigest covers of a text of flynn.toml: the values as they are written, without comments. Values that look like secrets
// have a mark in their place.
type SharedPart struct {
	Values  map[string]any
	secrets map[string]string // by key
}

// SharedPartOf returns the shared part of a text, which must be valid TOML.
func SharedPartOf(src []byte) (SharedPart, error) {
	p := SharedPart{map[string]any{}, map[string]string{}}
	if _, err := toml.Decode(string(src), &p.Values); err != nil {
		return p, fmt.Errorf("read flynn.toml: %w", err)
	}
	store, _ := p.Values["store"].(map[string]any)
	for _, own := range []string{"store", "cluster", "gateway", "plugins"} {
		delete(p.Values, own)
	}
	if age, is := store["max_age_hours"]; is {
		p.Values["store"] = map[string]any{"max_age_hours": age}
	}
	p.hide(nil, p.Values)
	return p, nil
}

// hide puts marks in the place of secrets, at any depth of a value, and returns the value.
func (p SharedPart) hide(at []string, value any) any {
	switch v := value.(type) {
	case string:
		if _, hidden := Hide(at[len(at)-1] + " = " + strconv.Quote(v)); len(hidden) == 0 {
			return v
		}
		p.secrets[KeyString(at...)] = v
		return hiddenMark("")
	case map[string]any:
		for key, inner := range v {
			v[key] = p.hide(append(slices.Clip(at), key), inner)
		}
	case []map[string]any:
		for i, inner := range v {
			p.hide(append(slices.Clip(at), "["+strconv.Itoa(i)+"]"), inner)
		}
	case []any:
		for i, inner := range v {
			// A text of a list counts as one of its key.
			v[i] = p.hide(append(slices.Clip(at), at[len(at)-1]), inner)
		}
	}
	return value
}

// Bytes returns the part as TOML.
func (p SharedPart) Bytes() ([]byte, error) {
	var b bytes.Buffer
	err := encode(&b, p.Values)
	return b.Bytes(), err
}

// NewSecret returns the key of a value that looks like a secret and is not in another part, or an empty text.
func (p SharedPart) NewSecret(before SharedPart) (key string) {
	for _, key := range slices.Sorted(maps.Keys(p.secrets)) {
		if was, is := before.secrets[key]; !is || was != p.secrets[key] {
			return key
		}
	}
	return ""
}
