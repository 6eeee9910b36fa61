package route

import (
	"cmp"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/glob"
	"github.com/flynnhost/flynn/host/message"
)

// Roles of senders, as policies see them.
const (
	Owner  = "owner"
	Member = "member"
	Guest  = "guest"
)

// Pairings knows the roles of paired senders. They may change at any time, so every decision asks again.
type Pairings interface {
	// Role returns the role of a paired sender; paired is false if there is none.
	Role(senderKey message.SenderKey) (role string, paired bool)
}

// Roles determines the roles of senders by [access] and [clients], and by pairings for those not listed. It is safe for concurrent use.
type Roles struct {
	owners, members, blocked people
	clients                  map[string]config.Client
	pairings                 Pairings // may be nil
	proofs                   func(channel string) message.SenderProof
}

// people are the ids and globs of a list.
type people struct {
	ids   map[string]bool
	globs []*glob.Pattern
}

// NewRoles reads the lists of a loaded configuration. proofs returns what a channel instance proves about sender ids; it is called for
// each decision, because plugins come and go.
func NewRoles(access config.Access, proofs func(channel string) message.SenderProof) *Roles {
	return &Roles{owners: newPeople(access.Owners), members: newPeople(access.Members), blocked: newPeople(access.Blocked), proofs: proofs}
}

// AllProved is a proofs function for channels that authenticate every sender.
func AllProved(string) message.SenderProof { return message.SendersProved }

// With returns roles that use pairings for senders who are not in the configuration.
func (r *Roles) With(p Pairings) *Roles {
	with := *r
	with.pairings = p
	return &with
}

func newPeople(patterns []string) people {
	p := people{ids: map[string]bool{}}
	for _, pattern := range patterns {
		switch r, ok := senderRule(pattern); {
		case !ok: // config.Load refuses it
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

// WithClients adds the API clients of a configuration.
func (r *Roles) WithClients(clients map[string]config.Client) *Roles {
	with := *r
	with.clients = clients
	return &with
}

// program returns the [clients] entry of a sender on an API frontend. owner is true for the gateway's own token.
func (r *Roles) program(senderKey message.SenderKey) (c config.Client, owner, known bool) {
	id := senderKey.ID()
	c, known = r.clients[id]
	return c, id == config.Gatekeeper, known
}

// MayAsk reports whether an API client may ask the agent that it names.
func (r *Roles) MayAsk(m message.Message) bool {
	c, owner, known := r.program(m.SenderKey())
	return owner || known && slices.Contains(c.Agents, m.Agent)
}

// Agents returns the agents that may answer a message, as far as its sender decides.
func (r *Roles) Agents(m message.Message, all []string) []string {
	if Frontend(m.Channel) == FrontendChannel || Local(m.Channel) || message.ForeignSenders(m.Channel) {
		return all
	}
	if c, owner, _ := r.program(m.SenderKey()); !owner {
		return c.Agents
	}
	return all
}

// ownInstance returns the channel instance of a sender. Messages of schedules and of the console come by channels of their own, but their
// senders belong to others.
func ownInstance(channel string, senderKey message.SenderKey) string {
	if message.ForeignSenders(channel) {
		return senderKey.Channel()
	}
	return channel
}

// Of returns the role of a sender, given as Message.SenderKey, on a channel instance. A sender on a local frontend is an owner. A
// blocked sender and one whose id is not proved are guests, whatever other rules say.
func (r *Roles) Of(channel string, senderKey message.SenderKey) string {
	role, _ := r.of(channel, senderKey)
	return role
}

// Known reports whether a sender is listed or paired, and not blocked.
func (r *Roles) Known(channel string, senderKey message.SenderKey) bool {
	_, known := r.of(channel, senderKey)
	return known
}

// Blocked reports whether a sender is blocked. The holder of this machine's token and an owner listed by exact id never are.
func (r *Roles) Blocked(channel string, senderKey message.SenderKey) bool {
	channel = ownInstance(channel, senderKey)
	if Local(channel) || Frontend(channel) != FrontendChannel && senderKey == message.NewSenderKey(channel, config.Gatekeeper) {
		return false
	}
	return r.blocked.have(senderKey) && !(r.owners.ids[string(senderKey)] && r.Proof(channel, senderKey).Counts())
}

// Proof returns what is proved about a sender's id. Nothing is proved about one that begins with "?", a name that anybody could have
// taken, whatever the channel proves about others: an operator's glob for everybody with an account is not meant for senders without
// one.
func (r *Roles) Proof(channel string, senderKey message.SenderKey) message.SenderProof {
	channel = ownInstance(channel, senderKey)
	switch {
	case Local(channel) || Frontend(channel) != FrontendChannel: // authenticated by token
		return message.SendersProved
	case senderKey.Unverified():
		return message.SendersClaimed
	}
	return r.proofs(channel)
}

func (r *Roles) of(channel string, senderKey message.SenderKey) (role string, known bool) {
	channel = ownInstance(channel, senderKey)
	switch {
	case r.Blocked(channel, senderKey):
		return Guest, false
	case Frontend(channel) != FrontendChannel && !Local(channel):
		return r.programRole(senderKey)
	case Local(channel):
		return Owner, true
	case senderKey.UnverifiedOn(channel):
		return Guest, r.paired(senderKey)
	case !r.Proof(channel, senderKey).Counts(): // such a sender is admitted, without further rights
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
	default: // a pairing never makes an owner
		return Guest, paired
	}
}

// Identity returns Proof as a word for people.
func (r *Roles) Identity(channel string, senderKey message.SenderKey) string {
	return cmp.Or(string(r.Proof(channel, senderKey)), "unknown")
}

// paired reports whether a sender is paired.
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

// FrontendChannel is the frontend of all channel plugins. The host's own frontends have the names of their channel instances.
const FrontendChannel = "channel"

// Frontend returns the frontend of a channel instance: channel, web, terminal, console, openai, mcp or schedule.
func Frontend(channel string) string {
	if config.BuiltinChannel(channel) {
		return channel
	}
	return FrontendChannel
}

// Door returns the frontend of a channel instance as policies see it. People at the console are those of channels, and the rules for
// channels hold for them.
func Door(channel string) string {
	if channel == message.ConsoleChannel {
		return FrontendChannel
	}
	return Frontend(channel)
}

// Local reports whether the senders on a channel instance are at this machine.
func Local(channel string) bool { return slices.Contains(config.LocalFrontends(), channel) }
