package opa

import (
	"encoding/binary"
	"slices"
	"strings"
)

// section is the custom section in which a module says what it reads of the document input.
const section = "flynn.input"

// maxReads bounds the names in the section.
const maxReads = 256

// AppendReads adds to a module the names of the facts that it reads, Args among them. The host leaves the others out of the document, which
// saves the module most of its work. Without the section a module gets everything.
func AppendReads(wasm []byte, names []string) []byte {
	names = slices.Sorted(slices.Values(names))
	content := append(named(section), strings.Join(names, "\n")...)
	out := append(slices.Clone(wasm), 0)
	return append(binary.AppendUvarint(out, uint64(len(content))), content...)
}

func named(s string) []byte { return append(binary.AppendUvarint(nil, uint64(len(s))), s...) }

// Reads finds what AppendReads wrote. It is false for a module that says nothing, or nothing that can be read.
func Reads(wasm []byte) (names []string, ok bool) {
	const header = 8
	if len(wasm) < header {
		return nil, false
	}
	for rest := wasm[header:]; len(rest) > 0; {
		id := rest[0]
		content, behind, ok := counted(rest[1:])
		if !ok {
			return nil, false
		}
		if name, text, ok := counted(content); id == 0 && ok && string(name) == section {
			names := strings.Split(string(text), "\n")
			return names, len(names) <= maxReads
		}
		rest = behind
	}
	return nil, false
}

// counted takes bytes behind their number.
func counted(b []byte) (content, behind []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, false
	}
	return b[n : n+int(size)], b[n+int(size):], true
}
