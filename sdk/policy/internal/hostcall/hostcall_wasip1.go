package hostcall

import "unsafe"

// Get reads a field that is too large for the frame.
func Get(field, index uint32, buf []byte) int32 {
	return get(field, index, unsafe.Pointer(unsafe.SliceData(buf)), uint32(len(buf)))
}

// Arg reads the tool's arguments by JSON Pointer.
func Arg(pointer string, buf []byte) int32 {
	return arg(pointer, unsafe.Pointer(unsafe.SliceData(buf)), uint32(len(buf)))
}

// ArgKind returns the kind of value at a JSON Pointer.
func ArgKind(pointer string) int32 { return argKind(pointer) }

// Data reads the policy's configured data.
func Data(key string, buf []byte) int32 {
	return data(key, unsafe.Pointer(unsafe.SliceData(buf)), uint32(len(buf)))
}

// Match matches s: 1 yes, 0 no, -1 bad pattern.
func Match(kind uint32, pattern, s string) int32 { return match(kind, pattern, s) }

// Trace records a rule.
func Trace(rule, hit uint32) { trace(rule, hit) }

// Log records a line.
func Log(level uint32, text string) { log(level, text) }

// A string parameter is passed as its address and its length, as the contract requires.

//go:wasmimport flynn1 get
//go:noescape
func get(field, index uint32, buf unsafe.Pointer, size uint32) int32

//go:wasmimport flynn1 arg
//go:noescape
func arg(pointer string, buf unsafe.Pointer, size uint32) int32

//go:wasmimport flynn1 arg_kind
//go:noescape
func argKind(pointer string) int32

//go:wasmimport flynn1 data
//go:noescape
func data(key string, buf unsafe.Pointer, size uint32) int32

//go:wasmimport flynn1 match
//go:noescape
func match(kind uint32, pattern, s string) int32

//go:wasmimport flynn1 trace
//go:noescape
func trace(rule, hit uint32)

//go:wasmimport flynn1 log
//go:noescape
func log(level uint32, text string)
