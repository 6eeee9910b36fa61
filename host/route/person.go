package route

import (
	"slices"

	"github.com/flynnhost/flynn/host/message"
)

// Persons returns the sender ids that an owner has linked with the given one, the given one first.
func (s *Scopes) Persons(senderKey message.SenderKey) []message.SenderKey {
	out := []message.SenderKey{senderKey}
	link, ok := s.link(senderKey)
	if !ok {
		return out
	}
	for id := range s.links {
		if name, ok := s.link(id); ok && name == link && id != senderKey {
			out = append(out, id)
		}
	}
	slices.Sort(out[1:])
	return out
}
