package agent

import "github.com/flynnhost/flynn/host/message"

// private tells whether nobody but the turn's sender reads its conversation.
func (t *turn) private() bool { return t.origin.Conversation.Kind == message.DM }

// sessionKey names the session that a message continues with an agent.
func sessionKey(m message.Message, a *Agent) string { return m.ConversationKey() + ":" + a.Name }
