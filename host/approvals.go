package host

import (
	"context"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/approval"
	"github.com/flynnhost/flynn/host/command"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// asked tells people over channels that a call waits for one of them: the conversation that it comes from, and those that
// the configuration names. The keys come from the request, so that a turn that is resumed does not ask twice.
func (h *Host) asked(ctx context.Context, t store.Turn, replyTo string, a store.Approval) {
	replies := requests(h.current.Load().config.Approvals, t, replyTo, a)
	fresh, err := h.store.AddReplies(context.WithoutCancel(ctx), t.ID, replies)
	if err != nil {
		h.log.Error("tell of a request for approval", "id", a.ID, "error", err)
		return
	}
	for _, r := range fresh {
		h.outbox.Push(t.ID, r)
	}
}

// requests are the messages that show a request.
func requests(c config.Approvals, t store.Turn, replyTo string, a store.Approval) []message.Reply {
	text := approval.Text(a, time.Now())
	var buttons []message.Button
	if approval.Showable(a) {
		buttons = []message.Button{
			{Text: "Approve", Value: "/approve " + a.ID, Style: message.ButtonPrimary},
			{Text: "Deny", Value: "/deny " + a.ID, Style: message.ButtonDanger},
		}
	}
	var out []message.Reply
	if route.Door(t.Channel) == route.DoorChannel {
		out = append(out, message.Reply{
			Key: t.ID + "/ask/" + a.ID, Channel: t.Channel, Conversation: t.Conversation, ReplyTo: replyTo, Text: text, Buttons: buttons,
		})
	}
	for _, where := range c.Conversations {
		channel, id, _ := strings.Cut(where, ":")
		if channel == t.Channel && id == t.Conversation.ID {
			continue
		}
		out = append(out, message.Reply{
			Key: t.ID + "/ask/" + a.ID + "/" + where, Channel: channel, Conversation: message.Conversation{ID: id, Kind: message.DM},
			Text: text, Buttons: buttons,
		})
	}
	return out
}

// selfApproves tells whether a requester may grant his own requests: whoever sits at this machine, and owners where the
// configuration says so.
func (h *Host) selfApproves(requester string) bool {
	channel, _, _ := strings.Cut(requester, ":")
	if route.Local(channel) {
		return true
	}
	g := h.current.Load()
	return g.config.Approvals.Self && g.Roles.Of(channel, requester) == route.Owner
}

// newCommands makes the desk for what people tell the host itself.
func (h *Host) newCommands() *command.Desk {
	return command.NewDesk(command.Config{
		Store: h.store, Approvals: h.desk, Log: h.log, Now: time.Now, Publish: h.broker.publish,
		Pairings: h.pairings,
		Admits:   func(m message.Message) string { return h.current.Load().gate.Refusal(m) },
		Role:     func(channel, sender string) string { return h.current.Load().Roles.Of(channel, sender) },
		Place:    h.place,
		Stop:     h.runner.Stop,
		Look:     h.look,
		Untold:   h.runner.Untold,
		Halt:     h.halt,
		Halted:   h.kill.why,
		Replied:  h.outbox.Push,
	})
}

// deliver hands on a message that was committed: a command to the host, everything else to the agents.
func (h *Host) deliver(row store.InboxRow) { h.queue(agent.Item{Row: row}) }
