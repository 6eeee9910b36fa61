package policy

import (
	"encoding/binary"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// cursor is the position in a frame that is being written: of the next entry, the next int, and the next other value. Fields are written
// in the order of their ids. Ints follow the table, for their alignment, and everything else follows the ints. The frame has the measured size.
//
// Cursor and frame are passed by value, so that both stay in registers from the first field to the last.
type cursor struct{ entry, ints, at int }

func (c cursor) add(frame []byte, id abi.Field, kind, length int) {
	b := frame[c.entry : c.entry+abi.EntrySize]
	binary.LittleEndian.PutUint64(b, uint64(id)|uint64(kind)<<16|uint64(uint32(c.at))<<32)
	binary.LittleEndian.PutUint32(b[8:], uint32(length))
}

// string copies short strings, as most are, as two halves that may overlap, which is faster than a call of copy. The compiler knows the
// lengths of the slices that are written to, which saves a third of the work.
func (c cursor) string(frame []byte, id abi.Field, s string) cursor {
	n := len(s)
	c.add(frame, id, abi.TypeString, n)
	at, end := c.at, c.at+n
	switch {
	case n > 16:
		copy(frame[at:end], s)
	case n >= 8:
		binary.LittleEndian.PutUint64(frame[at:at+8], word64(s))
		binary.LittleEndian.PutUint64(frame[end-8:end], word64(s[n-8:]))
	case n >= 4:
		binary.LittleEndian.PutUint32(frame[at:at+4], word32(s))
		binary.LittleEndian.PutUint32(frame[end-4:end], word32(s[n-4:]))
	case n > 0:
		frame[at+n/2], frame[at], frame[end-1] = s[n/2], s[0], s[n-1]
	}
	return cursor{c.entry + abi.EntrySize, c.ints, end}
}

// part writes a string as a part of a value; the entry of the value is written last.
func (c cursor) part(frame []byte, id abi.Field, at int, s string) (end int) {
	return cursor{c.entry, c.ints, at}.string(frame, id, s).at
}

func (c cursor) optional(frame []byte, id abi.Field, s string) cursor {
	if s == "" {
		return c
	}
	return c.string(frame, id, s)
}

// joined writes "a:b" without allocating that string.
func (c cursor) joined(frame []byte, id abi.Field, a, b string) cursor {
	at := c.part(frame, id, c.at, a)
	frame[at] = ':'
	at = c.part(frame, id, at+1, b)
	c.add(frame, id, abi.TypeString, at-c.at)
	return cursor{c.entry + abi.EntrySize, c.ints, at}
}

// bytes writes a value that is already encoded.
func (c cursor) bytes(frame []byte, id abi.Field, kind int, v []byte) cursor {
	c.add(frame, id, kind, len(v))
	copy(frame[c.at:c.at+len(v)], v)
	return cursor{c.entry + abi.EntrySize, c.ints, c.at + len(v)}
}

func (c cursor) int(frame []byte, id abi.Field, v int64) cursor {
	b := frame[c.entry : c.entry+abi.EntrySize]
	binary.LittleEndian.PutUint64(b, uint64(id)|abi.TypeInt<<16|uint64(uint32(c.ints))<<32)
	binary.LittleEndian.PutUint32(b[8:], 8)
	binary.LittleEndian.PutUint64(frame[c.ints:c.ints+8], uint64(v))
	return cursor{c.entry + abi.EntrySize, c.ints + 8, c.at}
}

func (c cursor) bool(frame []byte, id abi.Field, v bool) cursor {
	c.add(frame, id, abi.TypeBool, 1)
	b := byte(0)
	if v {
		b = 1
	}
	frame[c.at] = b
	return cursor{c.entry + abi.EntrySize, c.ints, c.at + 1}
}

func (c cursor) list(frame []byte, id abi.Field, list []string) cursor {
	at := c.at
	for _, s := range list {
		binary.LittleEndian.PutUint32(frame[at:], uint32(len(s)))
		at = c.part(frame, id, at+4, s)
	}
	c.add(frame, id, abi.TypeList, at-c.at)
	return cursor{c.entry + abi.EntrySize, c.ints, at}
}

func listSize(list []string) int {
	n := 4 * len(list)
	for _, s := range list {
		n += len(s)
	}
	return n
}

func word32(s string) uint32 {
	_ = s[3]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func word64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
