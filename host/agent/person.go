package agent

import (
	"github.com/flynnhost/flynn/host/message"
)

// persons are the sender keys of one person.
func (g *Generation) persons(senderKey string) []string {
	if g.Persons == nil {
		return []string{senderKey}
	}
	return g.Persons(senderKey)
}

// private reports whether nobody but the turn's sender reads its conversation.
func (t *turn) private() bool { return t.origin.Conversation.Kind == message.DM }
