package policy

import (
	"slices"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// agentList is a list of agents, encoded as in a frame. It is cached because it is the longest fact of a route, and is the same for most
// decisions, since it comes from the configuration.
type agentList struct {
	names []string
	value []byte
}

func newAgentList(names []string) *agentList {
	frame := make([]byte, abi.EntrySize+listSize(names))
	cursor{at: abi.EntrySize}.list(frame, abi.Agents, names)
	return &agentList{slices.Clone(names), frame[abi.EntrySize:]}
}

// agentList returns the list, encoded again only if it differs from the last one.
func (s *Set) agentList(names []string) *agentList {
	r := s.lastAgents.Load()
	if r == nil || !slices.Equal(r.names, names) {
		r = newAgentList(names)
		s.lastAgents.Store(r)
	}
	return r
}
