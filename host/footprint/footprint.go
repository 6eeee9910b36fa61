// Package footprint keeps small what a process touches of its memory and of its program while it starts.
//
// There are two ways: Deepen is for the goroutines of the parts of a host, and the package early for a main package.
package footprint

// stackRoom is what a part of the host needs at its deepest, in bytes, queries of the store included.
const stackRoom = 24 << 10

// Deepen makes the stack of the goroutine large enough for a part of the host, while there is next to nothing on it. Else it would be
// doubled four times on the way down, and each time the tables of all functions that are under way would be read: pages of the program
// that nothing else needs.
func Deepen() { room(false) }

// room has a frame of its size. A function that begins looks for room for all of it, whatever of it is used then.
//
//go:noinline
func room(use bool) {
	if use {
		var frame [stackRoom]byte
		hold(&frame)
	}
}

//go:noinline
func hold(*[stackRoom]byte) {}
