// Package jsonform is the form in which the host writes JSON that it stores, compares, shows or binds an approval to.
//
// Start with Canonical, the one form of a call's arguments, and Same, which compares two of them. Marshal is json.Marshal without
// the escapes for HTML: stored JSON stays byte for byte the JSON that was shown. The package does not check arguments against a
// schema; package tool does.
package jsonform

import (
	"bytes"
	"encoding/json"
)

// Marshal is json.Marshal, but it leaves <, > and & as they are: a json.RawMessage in v keeps its text.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Same reports whether two arguments of a call have one canonical form. So arguments that an earlier version stored with escapes for
// HTML equal those without.
func Same(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, _, err := Canonical(a)
	if err != nil {
		return false
	}
	y, _, err := Canonical(b)
	return err == nil && bytes.Equal(x, y)
}
