package route

import (
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
)

// Scope tells to which place a message belongs: those of one place share a session for each agent, and are handled in order. It is
// immutable and safe for concurrent use.
type Scopes struct {
	byConversation bool              // private chats
	threadsApart   bool              // in groups
	links          map[string]string // name of the link by sender id
	roles          *Roles
}

// NewScope reads the section of a loaded configuration. Only senders whose ids are proved by roles are linked.
func NewScopes(c config.Sessions, roles *Roles) *Scopes {
	s := &Scopes{byConversation: c.Private == "conversation", threadsApart: c.Groups != "conversation", links: map[string]string{}, roles: roles}
	for name, ids := range c.Links {
		for _, id := range ids {
			s.links[id] = name
		}
	}
	return s
}

// Place is the key of a message's place. It is made of what the channel knows of sender and conversation, and of nothing that the
// sender says of himself.
//
// The key says whether the place is private: "@link", "channel/dm:sender" and "channel/chat:conversation" are, and
// "channel:conversation" is a group or a thread. Names of channels have neither '@' nor '/', so no conversation can take the key of a
// private place, whatever its platform calls it.
func (s *Scopes) Scope(m message.Message) string {
	c := m.Conversation
	switch {
	case Frontend(m.Channel) != FrontendChannel: // conversations that are opened one by one at this machine
		return m.ConversationKey()
	case c.Kind == message.DM:
		return s.private(m)
	case c.Kind == message.Thread && c.Parent != "" && !s.threadsApart:
		return message.ConversationKey{Channel: m.Channel, ID: c.Parent}.String()
	}
	return m.ConversationKey()
}

func (s *Scopes) private(m message.Message) string {
	link, linked := s.link(m.SenderKey())
	switch {
	case linked:
		return message.LinkScope(link)
	case s.byConversation && m.Conversation.ID != m.Sender.ID:
		return message.ChatScope(message.ConversationKey{Channel: m.Channel, ID: m.Conversation.ID})
	}
	return message.SenderScope(message.SenderKey{Channel: m.Channel, ID: m.Sender.ID})
}

// link is the name of the link that a sender belongs to. Anybody may have taken an id that is not proved, and a link would show him
// what somebody else said.
func (s *Scopes) link(senderKey string) (string, bool) {
	name, ok := s.links[senderKey]
	if !ok {
		return "", false
	}
	sender, _ := message.ParseSender(senderKey)
	return name, s.roles.Proof(sender.Channel, senderKey).Counts()
}
