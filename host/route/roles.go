package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/glob"
	"github.com/flynnhost/flynn/host/message"
)

// Roles of a sender, as policies see them.
const (
	Owner  = "owner"
	Member = "member"
	Guest  = "guest"
)

// Roles tells who is who by [access]. It is immutable and safe for concurrent use.
type Roles struct {
	owners, members people
	clients         map[string]config.Client
}

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

// WithClients knows the programs of a configuration, too.
func (r *Roles) WithClients(clients map[string]config.Client) *Roles {
	with := *r
	with.clients = clients
	return &with
}

// program tells what [clients] says of who sent a message over a door for programs; the gateway's own token is the owner's.
func (r *Roles) program(senderKey string) (c config.Client, owner, known bool) {
	_, name, _ := strings.Cut(senderKey, ":")
	c, known = r.clients[name]
	return c, name == config.Gatekeeper, known
}

// Program tells why a message that came over a door for programs is not to be answered, or "".
func (r *Roles) Program(m message.Message) string {
	c, owner, known := r.program(m.SenderKey())
	switch {
	case owner:
		return ""
	case !known:
		return fmt.Sprintf("there is no [clients.%s]", m.Sender.ID)
	case !slices.Contains(c.Agents, m.Agent):
		return fmt.Sprintf("clients.%s may not ask the agent %q", m.Sender.ID, m.Agent)
	}
	return ""
}

// Agents are those of all that may answer a message, as far as who sent it decides that.
func (r *Roles) Agents(m message.Message, all []string) []string {
	if Door(m.Channel) == DoorChannel || Local(m.Channel) {
		return all
	}
	if c, owner, _ := r.program(m.SenderKey()); !owner {
		return c.Agents
	}
	return all
}

// Of is the role of a sender, given as Message.SenderKey, on a channel instance. Whoever is at a local door owns the place.
func (r *Roles) Of(channel, senderKey string) string {
	switch {
	case Local(channel) || r.owners.have(senderKey):
		return Owner
	case Door(channel) != DoorChannel:
		return r.programRole(senderKey)
	case r.members.have(senderKey):
		return Member
	}
	return Guest
}

func (r *Roles) programRole(senderKey string) string {
	c, owner, known := r.program(senderKey)
	switch {
	case owner:
		return Owner
	case known && c.Role == Member:
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
