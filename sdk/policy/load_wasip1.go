package policy

import "unsafe"

// load32 reads a little-endian word that the caller knows to lie inside b. WebAssembly loads at any
// alignment in one instruction, which the compiler does not find by itself from four byte loads.
func load32(b []byte, off uint32) uint32 {
	return *(*uint32)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), off))
}
