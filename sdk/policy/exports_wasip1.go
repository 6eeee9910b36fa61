package policy

import (
	"unsafe"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// A region always fits the largest output frame, and no frame of plausible facts is larger than maxRegion.
const maxRegion = 4 << 20

// region is where the host writes frames. It consists of words, so it is 8-aligned.
var region []uint64

func regionBytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(region))), len(region)*8)
}

//go:wasmexport flynn_abi
func exportABI() uint32 { return abi.Version }

//go:wasmexport flynn_buffer
func exportBuffer(size uint32) uint32 {
	if size > maxRegion {
		return 0
	}
	if words := (int(max(size, maxOutput)) + 7) / 8; words > len(region) {
		region = make([]uint64, words)
	}
	return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(region))))
}

//go:wasmexport flynn_route
func exportRoute(n uint32) int64 { return decideRoute(regionBytes(), n) }

//go:wasmexport flynn_tool
func exportTool(n uint32) int64 { return decideTool(regionBytes(), n) }
