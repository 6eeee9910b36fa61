package agent

import "github.com/flynnhost/flynn/host/message"

// persons returns the sender keys of one person.
func (g *Generation) persons(senderKey message.SenderKey) []message.SenderKey {
	if g.Persons == nil {
		return []message.SenderKey{senderKey}
	}
	return g.Persons.Persons(senderKey)
}
