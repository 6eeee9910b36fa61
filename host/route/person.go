package route

import "slices"

// Persons are the sender ids that an owner has linked with one, that one first: they are one person.
func (s *Scope) Persons(senderKey string) []string {
	out := []string{senderKey}
	link, ok := s.links[senderKey]
	if !ok {
		return out
	}
	for id, name := range s.links {
		if name == link && id != senderKey {
			out = append(out, id)
		}
	}
	slices.Sort(out[1:])
	return out
}
