package opa

import (
	"slices"
	"testing"
)

var empty = []byte("\x00asm\x01\x00\x00\x00")

func TestReads(t *testing.T) {
	wasm := AppendReads(append(slices.Clone(empty), 0, 3, 1, 'x', 'y'), []string{"tool", "args"})
	if names, ok := Reads(wasm); !ok || !slices.Equal(names, []string{"args", "tool"}) {
		t.Errorf("got %q, %v", names, ok)
	}
	for name, wasm := range map[string][]byte{
		"no section": empty, "nothing": nil, "half a section": wasm[:len(wasm)-1], "a size beyond the end": append(slices.Clone(empty), 0, 0xff, 0xff, 0x7f),
	} {
		if names, ok := Reads(wasm); ok {
			t.Errorf("%s: got %q", name, names)
		}
	}
}

// FuzzReads feeds anything, which is a module without the section, or has some names.
func FuzzReads(f *testing.F) {
	f.Add(empty)
	f.Add(AppendReads(empty, []string{"tool", "args"}))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		if names, ok := Reads(wasm); ok && (len(names) == 0 || len(names) > maxReads) {
			t.Errorf("%d names", len(names))
		}
	})
}
