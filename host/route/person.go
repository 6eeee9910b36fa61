package route

import "slices"

// Persons are the sender ids that an owner has linked with one, that one first: they are one person.
func (s *Scopes) Persons(senderKey string) []string {
	out := []string{senderKey}
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
