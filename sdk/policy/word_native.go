//go:build !wasip1

package policy

import (
	"encoding/binary"
	"unsafe"
)

// load32 reads a little-endian word. The caller has checked the bounds.
func load32(base unsafe.Pointer, off uint32) uint32 {
	return binary.LittleEndian.Uint32((*[4]byte)(unsafe.Add(base, off))[:])
}

// store32 writes a little-endian word. The caller has checked the bounds.
func store32(base unsafe.Pointer, off, v uint32) {
	binary.LittleEndian.PutUint32((*[4]byte)(unsafe.Add(base, off))[:], v)
}
