package inforce

import (
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/channel/command"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/elevate"
	"github.com/flynnhost/flynn/host/tool/search"
)

var (
	_ channel.Admitter = (*Current)(nil)
	_ command.Rules    = (*Current)(nil)
)

// Config returns the configuration in force.
func (c *Current) Config() *config.Config { return c.Load().Config }

// Access returns the rules for senders.
func (c *Current) Access() config.Access { return c.Config().Access }

// PairRole returns the role that a pairing gives.
func (c *Current) PairRole() string { return c.Access().PairRole }

// Retention returns how long conversations are kept.
func (c *Current) Retention() config.Retention { return c.Config().Retention }

// Traces returns where spans are sent.
func (c *Current) Traces() string { return c.Config().Telemetry.OTLPEndpoint }

// Roles returns the roles of senders.
func (c *Current) Roles() *route.Roles { return c.Load().Roles }

// Owners returns the configuration with the roles that belong to it.
func (c *Current) Owners() (*config.Config, *route.Roles) {
	g := c.Load()
	return g.Config, g.Roles
}

// Gates returns the settings of elevated mode.
func (c *Current) Gates() elevate.Gates {
	g := c.Load()
	return elevate.Gates{Config: g.Config, Roles: g.Roles}
}

// Streams reports whether answers on a channel are shown while they are written.
func (c *Current) Streams(channel string) bool { return c.Config().Channels[channel].Stream }

// MaxNotes bounds the notes of a sender; 0 before the first configuration.
func (c *Current) MaxNotes() int {
	if g := c.Load(); g != nil {
		return g.Config.Memory.MaxNotes
	}
	return 0
}

// Search returns the search services.
func (c *Current) Search() []*search.Service { return c.Load().Search }

// Client returns the API client with a token.
func (c *Current) Client(token string) (string, bool) { return c.Config().ClientOf(token) }

// Admit implements channel.Admitter.
func (c *Current) Admit(m message.Message) channel.Admission { return c.Load().Gate.Admit(m) }

// Admitted implements cluster.Counts.
func (c *Current) Admitted() []store.Count { return c.Load().Gate.Admitted() }

// Counted implements cluster.Counts.
func (c *Current) Counted(n store.Count) { c.Load().Gate.Counted(n) }

// Judge reports whether a message would be admitted, and why.
func (c *Current) Judge(m message.Message) (decision, why string) { return c.Load().Gate.Judge(m) }

// Refusal implements command.Rules.
func (c *Current) Refusal(m message.Message) string { return c.Load().Gate.Refusal(m) }

// Role implements command.Rules.
func (c *Current) Role(channel string, sender message.SenderKey) string {
	return c.Roles().Of(channel, sender)
}

// Proved implements command.Rules.
func (c *Current) Proved(channel string, sender message.SenderKey) bool {
	return c.Roles().Proof(channel, sender).Counts()
}

// Scope implements command.Rules.
func (c *Current) Scope(m message.Message) string { return c.Load().Scopes.Scope(m) }

// Persons implements command.Rules.
func (c *Current) Persons(sender message.SenderKey) []message.SenderKey {
	return c.Load().Scopes.Persons(sender)
}

// AtConsole returns the role of a person at the console; ok is false if his messages there are not answered.
func (c *Current) AtConsole(sender message.SenderKey) (role string, ok bool) {
	g := c.Load()
	m := message.Message{
		Channel: message.ConsoleChannel, Conversation: message.Conversation{ID: message.ConsoleConversation(sender, "any"), Kind: message.DM},
		Sender: message.Sender{ID: string(sender)}, Addressed: true,
	}
	if g.Gate.Refusal(m) != "" {
		return "", false
	}
	return g.Roles.Of(m.Channel, sender), true
}
