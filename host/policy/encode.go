package policy

import (
	"encoding/binary"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// cursor is where a frame is written on: at its next entry, its next int, and the next of all other values. Fields come in the order of
// their ids. Ints lie behind the table, for their alignment, and everything else behind the ints. The frame is as large as was measured.
//
// A cursor is handed on by value, and the frame beside it, so that both stay in registers from the first field to the last.
type cursor struct{ entry, ints, at int }

func (c cursor) add(frame []byte, id abi.Field, kind, length int) {
	b := frame[c.entry : c.entry+abi.EntrySize]
	binary.LittleEndian.PutUint64(b, uint64(id)|uint64(kind)<<16|uint64(uint32(c.at))<<32)
	binary.LittleEndian.PutUint32(b[8:], uint32(length))
}

func (c cursor) string(frame []byte, id abi.Field, s string) cursor {
	c.add(frame, id, abi.TypeString, len(s))
	place(frame[c.at:c.at+len(s)], s)
	return cursor{c.entry + abi.EntrySize, c.ints, c.at + len(s)}
}

func (c cursor) optional(frame []byte, id abi.Field, s string) cursor {
	if s == "" {
		return c
	}
	return c.string(frame, id, s)
}

// joined writes "a:b" without making that string.
func (c cursor) joined(frame []byte, id abi.Field, a, b string) cursor {
	c.add(frame, id, abi.TypeString, len(a)+1+len(b))
	to := frame[c.at : c.at+len(a)+1+len(b)]
	place(to[:len(a)], a)
	to[len(a)] = ':'
	place(to[len(a)+1:], b)
	return cursor{c.entry + abi.EntrySize, c.ints, c.at + len(to)}
}

// bytes writes a value that has its form already.
func (c cursor) bytes(frame []byte, id abi.Field, kind int, v []byte) cursor {
	c.add(frame, id, kind, len(v))
	copy(frame[c.at:c.at+len(v)], v)
	return cursor{c.entry + abi.EntrySize, c.ints, c.at + len(v)}
}

func (c cursor) int(frame []byte, id abi.Field, v int64) cursor {
	b := frame[c.entry : c.entry+abi.EntrySize]
	binary.LittleEndian.PutUint64(b, uint64(id)|abi.TypeInt<<16|uint64(uint32(c.ints))<<32)
	binary.LittleEndian.PutUint32(b[8:], 8)
	binary.LittleEndian.PutUint64(frame[c.ints:], uint64(v))
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
	size := putList(frame[c.at:], list)
	c.add(frame, id, abi.TypeList, size)
	return cursor{c.entry + abi.EntrySize, c.ints, c.at + size}
}

// putList writes the value of a list and returns its size.
func putList(to []byte, list []string) int {
	rest := to
	for _, s := range list {
		binary.LittleEndian.PutUint32(rest, uint32(len(s)))
		place(rest[4:4+len(s)], s)
		rest = rest[4+len(s):]
	}
	return len(to) - len(rest)
}

func listSize(list []string) int {
	n := 4 * len(list)
	for _, s := range list {
		n += len(s)
	}
	return n
}

// place copies a string to where it fits exactly. Names are short, and a call to copy one takes longer than copying it by its two
// halves, which may overlap.
func place(to []byte, s string) {
	n := len(s)
	switch {
	case n > 16:
		copy(to, s)
	case n >= 8:
		binary.LittleEndian.PutUint64(to, word64(s))
		binary.LittleEndian.PutUint64(to[n-8:], word64(s[n-8:]))
	case n >= 4:
		binary.LittleEndian.PutUint32(to, word32(s))
		binary.LittleEndian.PutUint32(to[n-4:], word32(s[n-4:]))
	default:
		for i := range n {
			to[i] = s[i]
		}
	}
}

func word32(s string) uint32 {
	_ = s[3]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func word64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
