package route

import (
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
)

// Scope tells to which place a message belongs: those of one place share a session for each agent, and are handled in order. It is
// immutable and safe for concurrent use.
type Scope struct {
	byConversation bool              // private chats
	threadsApart   bool              // in groups
	links          map[string]string // name of the link by sender id
}

// NewScope reads the section of a loaded configuration.
func NewScope(c config.Sessions) *Scope {
	s := &Scope{byConversation: c.Private == "conversation", threadsApart: c.Groups != "conversation", links: map[string]string{}}
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
// Names of channels have neither '@' nor '/', so that a link and a peer can never be taken for a conversation. A private chat that
// the platform calls by its peer is called like its conversation.
func (s *Scope) Place(m message.Message) string {
	c := m.Conversation
	switch {
	case Door(m.Channel) != DoorChannel: // conversations that are opened one by one at this machine
		return m.ConversationKey()
	case c.Kind == message.DM:
		return s.private(m)
	case c.Kind == message.Thread && c.Parent != "" && !s.threadsApart:
		return m.Channel + ":" + c.Parent
	}
	return m.ConversationKey()
}

func (s *Scope) private(m message.Message) string {
	link, linked := s.links[m.SenderKey()]
	switch {
	case linked:
		return "@" + link
	case s.byConversation || m.Conversation.ID == m.Sender.ID:
		return m.ConversationKey()
	}
	return m.Channel + "/dm:" + m.Sender.ID
}
