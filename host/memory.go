package host

import (
	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/command"
	"github.com/flynnhost/flynn/host/message"
)

// maxNotes is the bound of the configuration in force.
func (h *Host) maxNotes() int {
	if g := h.current.Load(); g != nil {
		return g.config.Memory.MaxNotes
	}
	return 0
}

// compacts tells whether a command is one to compact a conversation, by somebody who may.
func (h *Host) compacts(c command.Command, m message.Message) bool {
	return c.Name == agent.Compact && command.MayCompact(m, h.current.Load().Roles.Of(m.Channel, m.SenderKey()))
}
