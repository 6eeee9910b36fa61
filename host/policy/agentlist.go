package policy

import (
	"slices"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// agentList is a list of agents in the form that a frame has it. The list is the same from decision to decision, since it belongs to the
// host's configuration, and it is the longest that a frame of a route has.
type agentList struct {
	names []string
	value []byte
}

func newAgentList(names []string) *agentList {
	frame := make([]byte, abi.EntrySize+listSize(names))
	cursor{at: abi.EntrySize}.list(frame, abi.Agents, names)
	return &agentList{slices.Clone(names), frame[abi.EntrySize:]}
}

// agentList is the list as a frame has it, made anew when it is another one than the last.
func (s *Set) agentList(names []string) *agentList {
	r := s.lastAgents.Load()
	if r == nil || !slices.Equal(r.names, names) {
		r = newAgentList(names)
		s.lastAgents.Store(r)
	}
	return r
}
