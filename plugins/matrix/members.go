package main

import (
	"context"
	"net/http"
	"sync"
)

// maxRooms bounds the rooms whose size is remembered; past it the memory starts anew.
const maxRooms = 10_000

// members remembers how many people are in a room: two are a private chat.
type members struct {
	mu    sync.Mutex
	count map[string]int
}

func (m *members) set(room string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count == nil || len(m.count) >= maxRooms {
		m.count = map[string]int{}
	}
	m.count[room] = n
}

func (m *members) get(room string) (n int, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, known = m.count[room]
	return n, known
}

func (m *members) forget(room string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.count, room)
}

// private reports whether a room has nobody in it but one person and us. While that cannot be found out it is a group, in which Flynn
// answers only who addresses it.
func (p *plugin) private(ctx context.Context, id string) bool {
	n, known := p.members.get(id)
	if !known {
		var out struct {
			Joined map[string]struct{} `json:"joined"`
		}
		if err := p.client.call(ctx, http.MethodGet, room(id, "joined_members"), nil, nil, &out); err != nil {
			p.log.Warn("count the members of a room", "room", id, "error", err)
			return false
		}
		n = len(out.Joined)
		p.members.set(id, n)
	}
	return n <= 2
}
