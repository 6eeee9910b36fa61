package meter

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// reader reads bytes that may be hostile. It keeps the first error, after which every read returns zero.
type reader struct {
	data []byte
	at   int
	err  error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = malformed("%s at byte %d", what, r.at)
	}
	r.at = len(r.data)
}

func (r *reader) done() bool { return r.at >= len(r.data) }

func (r *reader) left() int { return len(r.data) - r.at }

func (r *reader) byte() byte {
	if r.done() {
		r.fail("unexpected end")
		return 0
	}
	b := r.data[r.at]
	r.at++
	return b
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > r.left() {
		r.fail("unexpected end")
		return nil
	}
	b := r.data[r.at : r.at+n : r.at+n]
	r.at += n
	return b
}

func (r *reader) u32() uint32 {
	if r.at < len(r.data) && r.data[r.at] < 0x80 { // most are
		r.at++
		return uint32(r.data[r.at-1])
	}
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if v > 1<<32-1 {
				r.fail("number out of range")
				return 0
			}
			return uint32(v)
		}
	}
	r.fail("number too long")
	return 0
}

// signed reads a signed number of the given bits, 32, 33 or 64.
func (r *reader) signed(bits int) int64 {
	var v int64
	for shift := 0; shift < (bits+6)/7*7; shift += 7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			if bits < 64 && (v >= 1<<(bits-1) || v < -1<<(bits-1)) || bits == 64 && shift == 63 && b != 0 && b != 0x7f {
				r.fail("number out of range")
				return 0
			}
			return v
		}
	}
	r.fail("number too long")
	return 0
}

// count reads the length of a vector whose elements take at least one byte each.
func (r *reader) count() int {
	n := r.u32()
	if int64(n) > int64(r.left()) {
		r.fail("count larger than what follows")
		return 0
	}
	return int(n)
}

func (r *reader) name() string {
	b := r.bytes(r.count())
	if !utf8.Valid(b) {
		r.fail("name is not UTF-8")
		return ""
	}
	return string(b)
}

// label reads the name of an import or export, which has to be printable because messages contain it.
func (r *reader) label() string {
	s := r.name()
	switch {
	case r.err != nil:
	case len(s) > MaxName:
		r.err = over("bytes of a name", len(s), MaxName)
	case strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }):
		r.err = unsupported("the name %q of an import or export cannot be printed", s)
	}
	return s
}
