package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/channel/command"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/approval"
)

// asked tells people over channels that a call waits for one of them: the conversation that it comes from, and those that
// the configuration names or, where it names none and the requester may not answer himself, the owners in private. The keys come from the request, so that a turn that is resumed does not ask twice.
func (h *Host) asked(ctx context.Context, t store.Turn, replyTo string, a store.Approval) {
	c := h.current.Load().config
	told := c.Approvals
	if len(told.Conversations) == 0 && !h.selfApproves(a.Requester) {
		for _, p := range h.ownersChats(ctx) {
			told.Conversations = append(told.Conversations, p.Channel+":"+p.Conversation.ID)
		}
	}
	told.Conversations = append(slices.Clip(told.Conversations), delivery(c, t, told.Conversations)...)
	replies := requests(told, t, replyTo, a, h.desk.Offer(a))
	fresh, err := h.store.AddReplies(context.WithoutCancel(ctx), t.ID, replies)
	if err != nil {
		h.log.Error("send a request for approval", "id", a.ID, "error", err)
		return
	}
	for _, r := range fresh {
		h.outbox.Push(t.ID, r)
	}
}

// requests are the messages that show a request.
func requests(c config.Approvals, t store.Turn, replyTo string, a store.Approval, o approval.Offer) []message.Reply {
	text := approval.Text(a, o, time.Now())
	buttons := answers(a, o)
	var out []message.Reply
	if route.Door(t.Channel) == route.DoorChannel {
		out = append(out, message.Reply{
			Key: askKey(a), Channel: t.Channel, Conversation: t.Conversation, ReplyTo: replyTo, Text: text, Buttons: buttons,
		})
	}
	for _, where := range c.Conversations {
		channel, id, _ := strings.Cut(where, ":")
		if channel == t.Channel && id == t.Conversation.ID {
			continue
		}
		out = append(out, message.Reply{
			Key: askKey(a) + "/" + where, Channel: channel, Conversation: message.Conversation{ID: id, Kind: message.DM},
			Text: text, Buttons: buttons,
		})
	}
	return out
}

// behind tells the sender of a message over a channel what it waits for. The key is that of the conversation and the request, so that a turn
// that is resumed does not say it twice.
func (h *Host) behind(t store.Turn, m message.Message, a store.Approval) {
	if route.Door(m.Channel) != route.DoorChannel {
		return // the page and the terminal show the request itself, and programs read nothing but answers
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fresh, err := h.store.AddReplies(ctx, t.ID, []message.Reply{{
		Key: t.ID + "/behind/" + a.ID + "/" + m.ConversationKey(), Channel: m.Channel, Conversation: m.Conversation, ReplyTo: m.EventID,
		Text: fmt.Sprintf("This waits: the answer before it needs an approval of `%s` (request %s). `/stop` ends that answer.", a.Tool, a.ID),
	}})
	if err != nil {
		h.log.Error("send what a message waits for", "id", a.ID, "error", err)
	}
	for _, r := range fresh {
		h.outbox.Push(t.ID, r)
	}
}

// askKey is the key of the message that shows a request where it comes from, and the beginning of those elsewhere.
func askKey(a store.Approval) string { return a.Turn + "/ask/" + a.ID }

// answers are the buttons below a request. Only what the message shows whole can be approved by one.
func answers(a store.Approval, o approval.Offer) []message.Button {
	deny := message.Button{Text: "Deny", Value: "/deny " + a.ID, Style: message.ButtonDanger}
	switch {
	case !approval.Showable(a):
		return []message.Button{deny}
	case !approval.Brief(a):
		return []message.Button{{Text: "Show all", Value: "/show " + a.ID, Style: message.ButtonPrimary}, deny}
	}
	buttons := []message.Button{{Text: "Once", Value: "/approve " + a.ID, Style: message.ButtonPrimary}}
	if o.Session {
		text := "Session"
		if o.SessionShell != "" {
			text = "Session (like a shell)"
		}
		buttons = append(buttons, message.Button{Text: text, Value: "/approve " + a.ID + " session"})
	}
	if o.Standing {
		buttons = append(buttons, message.Button{Text: "Always (30 days)", Value: "/approve " + a.ID + " always"})
	}
	return append(buttons, deny)
}

// settleAsked takes the buttons of a request away that has its answer, wherever it is shown, and says there what the answer was.
// Whatever is not committed here for a crash is so when the turn takes its request up again.
func (h *Host) settleAsked(ctx context.Context, a store.Approval) error {
	if a.State == store.ApprovalPending {
		return nil
	}
	rows, err := h.store.Replies(ctx, a.Turn)
	if err != nil {
		return err
	}
	var replies []message.Reply
	for _, r := range rows {
		if r.Reply.Amends == "" && len(r.Reply.Buttons) > 0 && strings.HasPrefix(r.Reply.Key, askKey(a)) {
			replies = append(replies, message.Reply{
				Key: r.Reply.Key + "/answered", Channel: r.Reply.Channel, Conversation: r.Reply.Conversation, Amends: r.Reply.Key,
				Text: approval.Outcome(a),
			})
		}
	}
	if len(replies) == 0 {
		return nil
	}
	fresh, err := h.store.AddReplies(ctx, a.Turn, replies)
	for _, r := range fresh {
		h.outbox.Push(a.Turn, r)
	}
	return err
}

// withdrawEnded ends the requests of turns that no longer run, which a crash, or an older flynn, has left open.
func (h *Host) withdrawEnded(ctx context.Context) error {
	turns, err := h.store.RunningTurns(ctx)
	if err != nil {
		return err
	}
	running := map[string]bool{}
	for _, t := range turns {
		running[t.ID] = true
	}
	return h.desk.WithdrawAll(ctx, func(turn string) bool { return !running[turn] })
}

// selfApproves reports whether a requester may grant his own requests: a person at this machine, and owners where the
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
		Store: h.store, Approvals: h.desk, Elevated: elevator{h}, Log: h.log, Now: time.Now, Publish: h.broker.Publish,
		Role:     func(channel, sender string) string { return h.current.Load().Roles.Of(channel, sender) },
		Place:    h.place,
		Stop:     h.runner.Stopper,
		Look:     h.look,
		Compact:  h.compact,
		Sessions: h.sessions.In,
		Deleted:  h.sessions.Deleted,
		Persons:  h.persons,
		Untold:   h.runner.Untold,
		Halt:     h.kill.Set,
		Halted:   h.kill.Why,
		Replied:  h.outbox.Push,
		Pairings: h.pairings,
		Admits:   func(m message.Message) string { return h.current.Load().gate.Refusal(m) },
	})
}

// said shows a message that was committed to those who watch its conversation, and hands it on.
func (h *Host) said(row store.InboxRow) {
	m := row.Message
	h.broker.Publish(message.Event{Kind: message.Said, Channel: m.Channel, Conversation: m.Conversation.ID, Key: m.EventID, Text: m.Text})
	h.deliver(row)
}

// deliver hands on a message that was committed: a command to the host, everything else to the agents.
func (h *Host) deliver(row store.InboxRow) { h.queue(agent.Item{Row: row}) }
