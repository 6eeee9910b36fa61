package route

import (
	"cmp"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/glob"
	"github.com/flynnhost/flynn/host/message"
)

// Roles of a sender, as policies see them.
const (
	Owner  = "owner"
	Member = "member"
	Guest  = "guest"
)

// Pairings tell who was paired, apart from the configuration. They change while it stays, so they are asked each time.
type Pairings interface {
	// Role is what a pairing has made of a sender; false when there is none.
	Role(senderKey message.SenderKey) (role string, paired bool)
}

// Roles tells who is who by [access] and [clients], and by pairings where they are silent. It is safe for concurrent use.
type Roles struct {
	owners, members, blocked people
	clients                  map[string]config.Client
	pairings                 Pairings // may be nil
	proofs                   func(channel string) message.SenderProof
}

// people are ids and globs of a list.
type people struct {
	ids   map[string]bool
	globs []*glob.Pattern
}

// NewRoles reads the lists of a loaded configuration. proofs returns what a channel instance proves about the ids of its senders; it
// is called each time, since plugins come and go while the configuration stays.
func NewRoles(access config.Access, proofs func(channel string) message.SenderProof) *Roles {
	return &Roles{owners: newPeople(access.Owners), members: newPeople(access.Members), blocked: newPeople(access.Blocked), proofs: proofs}
}

// AllProved are the proofs of channels that authenticate every sender.
func AllProved(string) message.SenderProof { return message.SendersProved }

// With returns the roles that ask pairings about whom the configuration does not name.
func (r *Roles) With(p Pairings) *Roles {
	with := *r
	with.pairings = p
	return &with
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

func (p people) have(senderKey message.SenderKey) bool {
	return p.ids[string(senderKey)] || slices.ContainsFunc(p.globs, func(g *glob.Pattern) bool { return g.Match(string(senderKey)) })
}

// WithClients knows the programs of a configuration, too.
func (r *Roles) WithClients(clients map[string]config.Client) *Roles {
	with := *r
	with.clients = clients
	return &with
}

// program tells what [clients] says of who sent a message over a door for programs; the gateway's own token is the owner's.
func (r *Roles) program(senderKey message.SenderKey) (c config.Client, owner, known bool) {
	id := senderKey.ID()
	c, known = r.clients[id]
	return c, id == config.Gatekeeper, known
}

// MayAsk reports whether a program may ask the agent that it asks for.
func (r *Roles) MayAsk(m message.Message) bool {
	c, owner, known := r.program(m.SenderKey())
	return owner || known && slices.Contains(c.Agents, m.Agent)
}

// Agents are those of all that may answer a message, as far as who sent it decides that.
func (r *Roles) Agents(m message.Message, all []string) []string {
	if Door(m.Channel) == DoorChannel || Local(m.Channel) || m.Channel == message.ScheduleDoor {
		return all
	}
	if c, owner, _ := r.program(m.SenderKey()); !owner {
		return c.Agents
	}
	return all
}

// home is the channel instance that a sender belongs to: at the door of the schedules nobody is, and whoever one runs for is somebody
// elsewhere.
func home(channel string, senderKey message.SenderKey) string {
	if channel == message.ScheduleDoor {
		return senderKey.Channel()
	}
	return channel
}

// Of is the role of a sender, given as Message.SenderKey, on a channel instance. The sender at a local door is an owner; one who is
// blocked is a guest, whatever else speaks for him, and so is one whose id is not proved.
func (r *Roles) Of(channel string, senderKey message.SenderKey) string {
	role, _ := r.of(channel, senderKey)
	return role
}

// Known reports whether a sender is listed or paired, and not blocked.
func (r *Roles) Known(channel string, senderKey message.SenderKey) bool {
	_, known := r.of(channel, senderKey)
	return known
}

// Blocked reports whether a sender is never to be heard. An owner who is listed by his exact id always is, and who holds the token of
// this machine.
func (r *Roles) Blocked(channel string, senderKey message.SenderKey) bool {
	channel = home(channel, senderKey)
	if Local(channel) || Door(channel) != DoorChannel && senderKey == message.NewSenderKey(channel, config.Gatekeeper) {
		return false
	}
	return r.blocked.have(senderKey) && !(r.owners.ids[string(senderKey)] && r.Proof(channel, senderKey).Counts())
}

// Proof is what is proved about a sender's id. One that begins with "?" is a name that anybody could have taken, whatever the channel
// proves about others: the glob of an operator who trusts everybody with an account is not meant for those without.
func (r *Roles) Proof(channel string, senderKey message.SenderKey) message.SenderProof {
	channel = home(channel, senderKey)
	switch {
	case Local(channel) || Door(channel) != DoorChannel: // they authenticate by token
		return message.SendersProved
	case senderKey.Unverified():
		return message.SendersClaimed
	}
	return r.proofs(channel)
}

func (r *Roles) of(channel string, senderKey message.SenderKey) (role string, known bool) {
	channel = home(channel, senderKey)
	switch {
	case r.Blocked(channel, senderKey):
		return Guest, false
	case Door(channel) != DoorChannel && !Local(channel):
		return r.programRole(senderKey)
	case Local(channel):
		return Owner, true
	case unverified(channel, senderKey):
		return Guest, r.paired(senderKey)
	case !r.Proof(channel, senderKey).Counts(): // a rule lets such a sender in, and gives no more
		return Guest, r.owners.have(senderKey) || r.members.have(senderKey) || r.paired(senderKey)
	case r.owners.have(senderKey):
		return Owner, true
	case r.members.have(senderKey):
		return Member, true
	case r.pairings == nil:
		return Guest, false
	}
	switch role, paired := r.pairings.Role(senderKey); {
	case paired && role == Member:
		return Member, true
	default: // a pairing never makes an owner, whatever a row of the store says
		return Guest, paired
	}
}

// unverified reports whether a sender of a channel instance has an id that is not verified.
func unverified(channel string, senderKey message.SenderKey) bool {
	return senderKey.Channel() == channel && senderKey.Unverified()
}

// Identity is Proof in a word for people.
func (r *Roles) Identity(channel string, senderKey message.SenderKey) string {
	return cmp.Or(string(r.Proof(channel, senderKey)), "unknown")
}

// paired reports whether somebody has let a sender in.
func (r *Roles) paired(senderKey message.SenderKey) bool {
	if r.pairings == nil {
		return false
	}
	_, paired := r.pairings.Role(senderKey)
	return paired
}

func (r *Roles) programRole(senderKey message.SenderKey) (role string, known bool) {
	c, owner, known := r.program(senderKey)
	switch {
	case owner:
		return Owner, true
	case known && c.Role == Member:
		return Member, true
	}
	return Guest, known
}

// DoorChannel is the door of all channel instances but the host's own doors, which are named like their instances.
const DoorChannel = "channel"

// Door names the door that a channel instance stands for: channel, web, terminal, openai or mcp.
func Door(channel string) string {
	if slices.Contains(config.BuiltinChannels(), channel) {
		return channel
	}
	return DoorChannel
}

// Local reports whether who speaks over a channel instance sits at this machine.
func Local(channel string) bool { return slices.Contains(config.LocalFrontends(), channel) }
