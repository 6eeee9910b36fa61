package footprint

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
	"unsafe"
)

func percent() int {
	p := debug.SetGCPercent(100)
	debug.SetGCPercent(p)
	return p
}

func TestBeginGivesBackWhatWasSet(t *testing.T) {
	set := debug.SetGCPercent(100)
	defer debug.SetGCPercent(set)
	for _, c := range []struct {
		name                 string
		before, start, ready int
	}{
		{"the default", 100, startPercent, firstPercent},
		{"more collecting", 50, startPercent, firstPercent},
		{"less collecting", 300, startPercent, 300},
		{"even less", 1000, 1000, 1000},
		{"no collecting", -1, -1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			debug.SetGCPercent(c.before)
			ready := Begin()
			start := percent()
			ready()
			if first := percent(); start != c.start || first != c.ready {
				t.Errorf("%d during the start and %d after it, want %d and %d", start, first, c.start, c.ready)
			}
			runtime.GC()
			for late := time.Now().Add(time.Minute); percent() != c.before; runtime.Gosched() {
				if time.Now().After(late) {
					t.Fatalf("%d after a collection, want %d", percent(), c.before)
				}
			}
		})
	}
}

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
