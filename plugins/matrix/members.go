package main

import (
	"context"
	"net/http"
)

// maxRooms bounds the rooms that are remembered.
const maxRooms = 10_000

// private reports whether a room has no members but one person and Flynn. A room whose members cannot be counted is a group, in which Flynn
// answers only messages addressed to it.
func (p *plugin) private(ctx context.Context, id string) bool {
	n, known := p.members.Get(id)
	if !known {
		var out struct {
			Joined map[string]struct{} `json:"joined"`
		}
		if err := p.client.call(ctx, http.MethodGet, room(id, "joined_members"), nil, nil, &out); err != nil {
			p.log.Warn("count the members of a room", "room", id, "error", err)
			return false
		}
		n = len(out.Joined)
		p.members.Set(id, n, 0)
	}
	return n <= 2
}
