package route

import (
	"slices"

	"github.com/flynnhost/flynn/host/message"
)

// Persons are the sender ids that an owner has linked with one, that one first: they are one person.
func (s *Scope) Persons(senderKey message.SenderKey) []message.SenderKey {
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
