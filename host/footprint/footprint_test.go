package footprint

import (
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"
)

// A stack that is deep enough stays where it is.
func TestDeepen(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection makes stacks smaller that are hardly used
	runtime.GC()                                     // ends one that is under way
	moved := make(chan bool)
	go func() {
		Deepen()
		var here byte
		before := uintptr(unsafe.Pointer(&here))
		below(16 << 10 / frame)
		moved <- before != uintptr(unsafe.Pointer(&here))
	}()
	if <-moved {
		t.Error("the stack was moved on the way down")
	}
}

const frame = 512

// below calls itself, with something on the stack each time.
//
//go:noinline
func below(n int) byte {
	var on [frame]byte
	if n > 0 {
		on[n%frame] = below(n - 1)
	}
	return on[0]
}
