package footprint

import (
	"testing"
	"unsafe"
)

// A stack that is deep enough stays where it is.
func TestDeepen(t *testing.T) {
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
