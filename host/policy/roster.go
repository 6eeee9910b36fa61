package policy

import (
	"slices"

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

// roster is the list as a frame has it, made anew when it is another one than the last.
func (s *Set) roster(names []string) *roster {
	r := s.lastRoster.Load()
	if r == nil || !slices.Equal(r.names, names) {
		r = newRoster(names)
		s.lastRoster.Store(r)
	}
	return r
}
