package gateway

import (
	"context"
	"slices"
	"sync"
)

// maxStrangers bounds the sockets that have shown no token yet.
const maxStrangers = 256

// strangers are the sockets that have shown no token yet, oldest first. Any program on the machine can open them, so beyond the bound a
// new socket is not refused but closes the oldest. A client that sends its hello at once gets in, however many others are silent. The zero
// value is ready for use.
type strangers struct {
	mu      sync.Mutex
	waiting []*context.CancelFunc
}

// enter adds a socket, which cancel closes when its slot is needed. The caller calls leave when it has shown its token or is closed.
func (s *strangers) enter(cancel context.CancelFunc) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) >= maxStrangers {
		(*s.waiting[0])()
		s.waiting = slices.Delete(s.waiting, 0, 1)
	}
	place := &cancel
	s.waiting = append(s.waiting, place)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := slices.Index(s.waiting, place); i >= 0 {
			s.waiting = slices.Delete(s.waiting, i, i+1)
		}
	}
}
