package route

import (
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/glob"
)

// Roles of a sender, as policies see them.
const (
	Owner  = "owner"
	Member = "member"
	Guest  = "guest"
)

// Roles tells who is who by [access]. It is immutable and safe for concurrent use.
type Roles struct{ owners, members people }

// people are ids and globs of a list.
type people struct {
	ids   map[string]bool
	globs []*glob.Pattern
}

// NewRoles reads the lists of a loaded configuration.
func NewRoles(access config.Access) *Roles {
	return &Roles{owners: newPeople(access.Owners), members: newPeople(access.Members)}
}

func newPeople(patterns []string) people {
	p := people{ids: map[string]bool{}}
	for _, pattern := range patterns {
		switch r, ok := senderRule(pattern); {
		case !ok: // refused by config.Load
		case r.Tier == TierSender:
			p.ids[r.literal] = true
		default:
			p.globs = append(p.globs, r.pattern)
		}
	}
	return p
}

func (p people) have(senderKey string) bool {
	return p.ids[senderKey] || slices.ContainsFunc(p.globs, func(g *glob.Pattern) bool { return g.Match(senderKey) })
}

// Of is the role of a sender, given as Message.SenderKey, on a channel instance. Whoever is at a local door owns the place.
func (r *Roles) Of(channel, senderKey string) string {
	switch {
	case Local(channel) || r.owners.have(senderKey):
		return Owner
	case r.members.have(senderKey):
		return Member
	}
	return Guest
}

// DoorChannel is the door of all channel instances but the host's own doors, which are named like their instances.
const DoorChannel = "channel"

// Door names the door that a channel instance stands for: channel, web, terminal, openai or mcp.
func Door(channel string) string {
	if slices.Contains(config.OwnDoors(), channel) {
		return channel
	}
	return DoorChannel
}

// Local tells whether who speaks over a channel instance sits at this machine.
func Local(channel string) bool { return slices.Contains(config.LocalDoors(), channel) }
