package policy

import (
	"unicode/utf8"
	"unsafe"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// maxOutput bounds an output frame; the host accepts no larger one.
const maxOutput = 8 << 10

// scratch holds the output frame until it is complete, because names and reasons are often views of the region that it is written to.
var scratch [maxOutput]byte

// writeOutput writes up to two strings in an output frame at the start of region and returns its length, which is 0 if both are empty. A
// reason is cut to fit; a name that does not fit is an error.
func writeOutput(region []byte, id abi.Field, name, reason string) (length uint32, ok bool) {
	if name == "" && reason == "" {
		return 0, true
	}
	room := uint32(min(len(region), maxOutput))
	end := uint32(abi.HeaderSize + abi.EntrySize)
	if name != "" && reason != "" {
		end += abi.EntrySize
	}
	if end > room || len(name) > int(room-end) {
		return 0, false
	}
	entries := uint32(0)
	if name != "" {
		end, entries = put(entries, end, id, name), 1
	}
	if reason = cut(reason, int(room-end)); reason != "" {
		end, entries = put(entries, end, abi.OutReason, reason), entries+1
	}
	base := unsafe.Pointer(&scratch)
	store32(base, 0, abi.Magic)
	store32(base, 4, abi.FrameOutput|entries<<16)
	store32(base, 8, end)
	copy(region, scratch[:end])
	return end, true
}

// put writes entry number i with its value at end, and returns the end of the value.
func put(i, end uint32, id abi.Field, s string) uint32 {
	entry := abi.HeaderSize + i*abi.EntrySize
	base := unsafe.Pointer(&scratch)
	store32(base, entry, uint32(id)|abi.TypeString<<16)
	store32(base, entry+4, end)
	store32(base, entry+8, uint32(len(s)))
	return end + uint32(copy(scratch[end:], s))
}

// cut shortens s to at most n bytes without splitting a rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
