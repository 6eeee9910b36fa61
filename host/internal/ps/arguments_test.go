package ps

import (
	"encoding/binary"
	"slices"
	"testing"
)

// arguments makes what kern.procargs2 gives.
func arguments(count uint32, text string) []byte {
	return append(binary.NativeEndian.AppendUint32(nil, count), text...)
}

func TestParseArguments(t *testing.T) {
	for _, c := range []struct {
		name string
		raw  []byte
		want []string
	}{
		{"plain", arguments(2, "/bin/sh\x00\x00\x00\x00sh\x00-c\x00A=1\x00B=\x00\x00ptr_munge=\x00"), []string{"A=1", "B="}},
		{"an empty argument at the end", arguments(2, "/bin/sh\x00\x00sh\x00\x00A=1\x00\x00"), []string{"A=1"}},
		{"no variables", arguments(1, "/bin/sh\x00sh\x00\x00"), nil},
		{"nothing behind the arguments", arguments(1, "/bin/sh\x00sh\x00"), nil},
		{"more arguments than there are", arguments(1<<31, "/bin/sh\x00sh\x00A=1\x00"), nil},
		{"cut in a variable", arguments(1, "/bin/sh\x00sh\x00A=1\x00B"), []string{"A=1", "B"}},
		{"no path", arguments(0, ""), nil},
		{"no count", []byte{1, 0}, nil},
		{"empty", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, v := range parseArguments(c.raw) {
				got = append(got, string(v))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzParseArguments(f *testing.F) {
	f.Add(arguments(2, "/bin/sh\x00\x00sh\x00-c\x00A=1\x00\x00"))
	f.Add(arguments(1<<32-1, "\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, v := range parseArguments(raw) {
			if len(v) == 0 || slices.Contains(v, 0) {
				t.Fatalf("%q has the variable %q", raw, v)
			}
		}
	})
}
