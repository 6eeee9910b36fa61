package policy

import (
	"unicode/utf8"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// maxOutput bounds an output frame; the host accepts no larger one.
const maxOutput = 8 << 10

// scratch holds the output frame until it is whole: names and reasons are often views of the very region
// that it goes to.
var scratch [maxOutput]byte

// writeOutput puts up to two strings into an output frame at the start of region and returns its length,
// which is 0 when both are empty. A reason is cut to fit; a name that does not fit is an error.
func writeOutput(region []byte, id abi.Field, name, reason string) (int, bool) {
	if name == "" && reason == "" {
		return 0, true
	}
	w := writer{buf: scratch[:min(len(region), maxOutput)]}
	entries := uint32(0)
	for _, s := range [...]string{name, reason} {
		if s != "" {
			entries++
		}
	}
	w.end = abi.HeaderSize + entries*abi.EntrySize
	if uint64(w.end)+uint64(len(name)) > uint64(len(w.buf)) {
		return 0, false
	}
	w.entry(id, name)
	w.entry(abi.OutReason, cut(reason, len(w.buf)-int(w.end)))
	w.header()
	copy(region, w.buf[:w.end])
	return int(w.end), true
}

// writer fills a frame: entries grow from the front, values from behind the table.
type writer struct {
	buf     []byte
	entries uint32
	end     uint32
}

func (w *writer) header() {
	store32(w.buf, 0, abi.Magic)
	store32(w.buf, 4, abi.FrameOutput|w.entries<<16)
	store32(w.buf, 8, w.end)
	store32(w.buf, 12, 0)
}

func (w *writer) entry(id abi.Field, s string) {
	if s == "" {
		return
	}
	at := abi.HeaderSize + w.entries*abi.EntrySize
	store32(w.buf, at, uint32(id)|abi.TypeString<<16)
	store32(w.buf, at+4, w.end)
	store32(w.buf, at+8, uint32(len(s)))
	w.entries++
	w.end += uint32(copy(w.buf[w.end:], s))
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

func store32(b []byte, off, v uint32) {
	b = b[off : off+4]
	b[0], b[1], b[2], b[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
}
