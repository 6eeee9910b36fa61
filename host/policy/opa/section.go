package opa

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/policy/meter"
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

// Reads returns what AppendReads wrote. It is false for a module that says nothing, or nothing that can be read.
func Reads(wasm []byte) (names []string, ok bool) {
	sections, err := meter.Sections(wasm)
	i := slices.IndexFunc(sections, func(s meter.Section) bool { return s.Name == section })
	if err != nil || i < 0 {
		return nil, false
	}
	names = strings.Split(string(sections[i].Data), "\n")
	return names, len(names) <= maxReads
}
