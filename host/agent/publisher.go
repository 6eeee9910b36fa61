package agent

import (
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
)

// publisher shows a turn to its watchers.
type publisher struct {
	events *event.Bus
	of     *turnlog.Turn
	view   View // nil if nobody waits for it
	// child is true for a delegated turn. above is the parent's publisher, or nil if the parent no longer runs.
	child bool
	above *publisher
}

// publish shows an event. The tool calls of a delegated turn are shown as calls of the turn that people watch, so that they can be seen
// and approved there. Its text is not shown.
func (p *publisher) publish(e message.Event) {
	if p.child {
		switch e.Kind {
		case message.ToolCall, message.ToolDecision, message.ToolApproval, message.ToolProgress, message.ToolResult:
		default:
			return
		}
		e.Call = p.of.ParentCall + "/" + e.Call
		if p.above != nil {
			p.above.publish(e)
			return
		}
	}
	e.Channel, e.Conversation, e.Turn, e.Agent = p.of.Channel, p.of.Conversation.ID, p.of.ID, p.of.Agent
	p.events.Publish(e)
	if p.view != nil {
		p.view.Event(e)
	}
}
