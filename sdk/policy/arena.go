package policy

import "unsafe"

// arena holds what a hook has read lazily from the host until the hook returns. Its block is kept from call to call, so that only the first
// large read allocates.
type arena struct {
	block []byte
	used  int
}

// memory is the module's arena; like the region it belongs to the one instance.
var memory arena

const firstBlock = 4 << 10

func (a *arena) reset() { a.used = 0 }

// read asks the host to fill the free part of the block, and again with more room if that was too little. Views of an earlier block stay
// valid: the collector keeps it while they exist.
func (a *arena) read(fill func(buf []byte) int32) (string, bool) {
	if a.block == nil {
		a.block = make([]byte, firstBlock)
	}
	n := int(fill(a.block[a.used:]))
	if n < 0 {
		return "", false
	}
	if n > len(a.block)-a.used {
		a.block, a.used = make([]byte, 2*len(a.block)+n), 0
		if n = int(fill(a.block)); n < 0 || n > len(a.block) {
			return "", false
		}
	}
	s := view(a.block[a.used : a.used+n])
	a.used += n
	return s, true
}

// view returns a string over bytes that do not change until the hook returns.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
