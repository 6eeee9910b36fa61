package policy

import "unsafe"

// roster is a list of agents in the form that a frame has it. The list is the same from decision to decision, since it belongs to the
// host's configuration, and the longest that a frame of a route has.
type roster struct {
	names []string
	value []byte
}

func newRoster(names []string) *roster {
	r := &roster{names: append([]string(nil), names...), value: make([]byte, listSize(names))}
	putList(r.value, names)
	return r
}

// lists tells that the names are the very same strings, which none of them can have changed since.
func (r *roster) lists(names []string) bool {
	if r == nil || len(r.names) != len(names) {
		return false
	}
	for i, name := range r.names {
		if len(name) != len(names[i]) || unsafe.StringData(name) != unsafe.StringData(names[i]) {
			return false
		}
	}
	return true
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
