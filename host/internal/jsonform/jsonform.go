// Package jsonform is the form in which the host writes JSON: what it stores, compares, binds an approval to, and shows.
//
// Start with Canonical, the one form of a call's arguments, and Same, which compares two of them. Marshal is json.Marshal without
// the escapes for HTML, with which JSON that was stored would no longer be, byte for byte, the JSON that was shown. The package
// judges nothing: whether arguments fit a tool is decided in package tool.
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

// Same reports whether two arguments of a call have one canonical form. Arguments that a version before this package stored have
// escapes for HTML, and are the same all the same.
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
