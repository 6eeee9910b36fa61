package agent

import (
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
)

// publisher shows a turn to those who watch it.
type publisher struct {
	events *event.Bus
	of     *turnlog.Turn
	view   View // nil where nobody waits for it
	// child is true for a delegated turn, and above is its parent's; nil where that runs no more.
	child bool
	above *publisher
}

// publish shows an event. Of a child it becomes one of the turn that people watch: the calls of delegates are seen, and asked about, among
// those of the agent that they work for. Their words are not for people.
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
