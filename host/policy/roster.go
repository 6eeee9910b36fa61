package policy

import (
	"slices"
	"unsafe"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// roster is a list of agents in the form that a frame has it. The list is the same from decision to decision, since it belongs to the
// host's configuration, and it is the longest that a frame of a route has.
type roster struct {
	names []string
	value []byte
}

func newRoster(names []string) *roster {
	frame := make([]byte, abi.EntrySize+listSize(names))
	cursor{at: abi.EntrySize}.list(frame, abi.Agents, names)
	return &roster{slices.Clone(names), frame[abi.EntrySize:]}
}

// lists tells that the names are the very same strings, none of which can have changed since.
func (r *roster) lists(names []string) bool { return r != nil && headers(r.names) == headers(names) }

// headers are where strings lie and how long they are, as one text to compare and not to keep.
func headers(names []string) string {
	return unsafe.String((*byte)(unsafe.Pointer(unsafe.SliceData(names))), len(names)*int(unsafe.Sizeof("")))
}

// roster is the list as a frame has it, made anew when it is another one than the last.
func (s *Set) roster(names []string) *roster {
	r := s.lastRoster.Load()
	if !r.lists(names) {
		r = newRoster(names)
		s.lastRoster.Store(r)
	}
	return r
}
