package policy

import "unsafe"

// WebAssembly loads and stores at any alignment in one instruction, which the compiler does not generate from four bytes.

// load32 reads a little-endian word. The caller has checked the bounds.
func load32(base unsafe.Pointer, off uint32) uint32 { return *(*uint32)(unsafe.Add(base, off)) }

// store32 writes a little-endian word. The caller has checked the bounds.
func store32(base unsafe.Pointer, off, v uint32) { *(*uint32)(unsafe.Add(base, off)) = v }
