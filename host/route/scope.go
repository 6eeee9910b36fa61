package route

import (
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
)

// Scope tells to which place a message belongs: those of one place share a session for each agent, and are handled in order. It is
// immutable and safe for concurrent use.
type Scope struct {
	byConversation bool                         // private chats
	threadsApart   bool                         // in groups
	links          map[message.SenderKey]string // name of the link by sender
	roles          *Roles
}

// NewScope reads the section of a loaded configuration. Only senders whose ids are proved by roles are linked.
func NewScope(c config.Sessions, roles *Roles) *Scope {
	s := &Scope{byConversation: c.Private == "conversation", threadsApart: c.Groups != "conversation", links: map[message.SenderKey]string{}, roles: roles}
	for name, ids := range c.Links {
		for _, id := range ids {
			s.links[message.SenderKey(id)] = name
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
func (s *Scope) Place(m message.Message) string {
	c := m.Conversation
	switch {
	case Door(m.Channel) != DoorChannel: // conversations that are opened one by one at this machine
		return string(m.ConversationKey())
	case c.Kind == message.DM:
		return s.private(m)
	case c.Kind == message.Thread && c.Parent != "" && !s.threadsApart:
		return string(message.NewConversationKey(m.Channel, c.Parent))
	}
	return string(m.ConversationKey())
}

func (s *Scope) private(m message.Message) string {
	link, linked := s.link(m.SenderKey())
	switch {
	case linked:
		return message.LinkPlace(link)
	case s.byConversation && m.Conversation.ID != m.Sender.ID:
		return message.ChatPlace(m.ConversationKey())
	}
	return message.SenderPlace(message.NewSenderKey(m.Channel, m.Sender.ID))
}

// link is the name of the link that a sender belongs to. Anybody may have taken an id that is not proved, and a link would show him
// what somebody else said.
func (s *Scope) link(senderKey message.SenderKey) (string, bool) {
	name, ok := s.links[senderKey]
	if !ok {
		return "", false
	}
	return name, s.roles.Proof(senderKey.Channel(), senderKey).Counts()
}
