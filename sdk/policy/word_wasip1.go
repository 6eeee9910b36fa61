package policy

import "unsafe"

// WebAssembly loads and stores at any alignment in one instruction, which the compiler does not find by
// itself from four bytes.

// load32 reads a little-endian word that the caller knows to be there.
func load32(base unsafe.Pointer, off uint32) uint32 { return *(*uint32)(unsafe.Add(base, off)) }

// store32 writes a little-endian word that the caller knows to have room for.
func store32(base unsafe.Pointer, off, v uint32) { *(*uint32)(unsafe.Add(base, off)) = v }
