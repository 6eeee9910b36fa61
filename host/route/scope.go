package route

import (
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
)

// Scopes maps messages to conversation scopes: the messages of a scope share a session for each agent, and are handled in order. It is
// immutable and safe for concurrent use.
type Scopes struct {
	byConversation bool                         // private chats
	threadsApart   bool                         // in groups
	links          map[message.SenderKey]string // name of the link by sender
	roles          *Roles
}

// NewScopes reads the section of a loaded configuration. Only senders whose ids are proved by roles are linked.
func NewScopes(c config.Sessions, roles *Roles) *Scopes {
	s := &Scopes{byConversation: c.Private == "conversation", threadsApart: c.Groups != "conversation", links: map[message.SenderKey]string{}, roles: roles}
	for name, ids := range c.Links {
		for _, id := range ids {
			s.links[message.SenderKey(id)] = name
		}
	}
	return s
}

// Scope returns the key of a message's conversation scope. It depends on what the channel knows of sender and conversation, and on
// nothing that the sender can choose.
//
// The form of the key shows whether the scope is private: "@link", "channel/dm:sender" and "channel/chat:conversation" are, and
// "channel:conversation" is a group or a thread. Channel names contain neither '@' nor '/', so no conversation can have the key of a
// private scope, whatever its platform calls it.
func (s *Scopes) Scope(m message.Message) string {
	c := m.Conversation
	switch {
	case Frontend(m.Channel) != FrontendChannel: // every conversation on this machine is separate
		return string(m.ConversationKey())
	case c.Kind == message.DM:
		return s.private(m)
	case c.Kind == message.Thread && c.Parent != "" && !s.threadsApart:
		return string(message.NewConversationKey(m.Channel, c.Parent))
	}
	return string(m.ConversationKey())
}

func (s *Scopes) private(m message.Message) string {
	link, linked := s.link(m.SenderKey())
	switch {
	case linked:
		return message.LinkScope(link)
	case s.byConversation && m.Conversation.ID != m.Sender.ID:
		return message.ChatScope(m.ConversationKey())
	}
	return message.SenderScope(message.NewSenderKey(m.Channel, m.Sender.ID))
}

// link returns the name of the link that a sender belongs to. An id that is not proved is in no link: anybody could take it and read
// the linked conversations.
func (s *Scopes) link(senderKey message.SenderKey) (string, bool) {
	name, ok := s.links[senderKey]
	if !ok {
		return "", false
	}
	return name, s.roles.Proof(senderKey.Channel(), senderKey).Counts()
}
