// Package notice writes the host's own messages on channels: requests for approval and their outcome, what a message waits for, and why
// it is not answered.
//
// Start with Notices.Asked. The key of each message is derived from its cause, so that a message that is repeated after a restart is sent
// once. Package approval words the requests and decides about them; package command writes the answers to commands.
package notice

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/access/owners"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Store commits replies.
type Store interface {
	AddReplies(ctx context.Context, turn string, replies []message.Reply) (fresh []message.Reply, err error)
	Replies(ctx context.Context, turn string) ([]mailbox.OutboxRow, error)
}

// Outbox sends replies that were committed; *channel.Outbox implements it.
type Outbox interface {
	Push(turn string, r message.Reply)
}

// Requests returns how a request may be granted; *approval.Service implements it.
type Requests interface {
	Offer(a consent.Approval) approval.Offer
}

// Owners returns the chats of owners; *owners.Owners implements it.
type Owners interface {
	Chats(ctx context.Context) []owners.Chat
	SelfApprove(requester message.SenderKey) bool
}

// Quota reports, once a day for each sender, that the sender may be told about the limit.
type Quota interface {
	Tell(sender message.SenderKey) bool
}

// Config configures Notices.
type Config struct {
	Store    Store
	Outbox   Outbox
	Requests Requests
	Owners   Owners
	Quota    Quota
	// Config returns the configuration in force.
	Config func() *config.Config
	Log    *slog.Logger
}

// Notices are the host's own messages.
type Notices struct{ cfg Config }

// New returns Notices.
func New(cfg Config) *Notices { return &Notices{cfg} }

// Asked sends a request for approval to the conversation that it comes from, and to those that the configuration names or, if it
// names none and the requester may not approve it, to the owners in private.
func (n *Notices) Asked(ctx context.Context, t turnlog.Turn, replyTo string, a consent.Approval) {
	c := n.cfg.Config()
	told := slices.Clone(c.Approvals.Conversations)
	if len(told) == 0 && !n.cfg.Owners.SelfApprove(a.Requester) {
		for _, chat := range n.cfg.Owners.Chats(ctx) {
			told = append(told, string(chat.Key()))
		}
	}
	if to := delivery(c, t); to != "" && !slices.Contains(told, to) {
		told = append(told, to)
	}
	if err := n.send(context.WithoutCancel(ctx), t.ID, requests(told, t, replyTo, a, n.cfg.Requests.Offer(a))); err != nil {
		n.cfg.Log.Error("send a request for approval", "id", a.ID, "error", err)
	}
}

// delivery is the conversation that gets the answer of a schedule's turn; "" for other turns.
func delivery(c *config.Config, t turnlog.Turn) string {
	for _, s := range c.Schedules {
		if t.Channel == message.ScheduleChannel && t.Conversation.ID == s.Name {
			return s.Deliver
		}
	}
	return ""
}

// Behind tells the sender of a message over a channel that it waits for the approval of an earlier call.
func (n *Notices) Behind(t turnlog.Turn, m message.Message, a consent.Approval) {
	if route.Frontend(m.Channel) != route.FrontendChannel {
		return // the page and the terminal show the request itself, and API clients read only answers
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	err := n.send(ctx, t.ID, []message.Reply{{
		Key: t.ID + "/behind/" + a.ID + "/" + string(m.ConversationKey()), Channel: m.Channel, Conversation: m.Conversation, ReplyTo: m.EventID,
		Text: fmt.Sprintf("Your message waits: the answer before it needs an approval of `%s` (request %s). `/stop` ends that answer.", a.Tool, a.ID),
	}})
	if err != nil {
		n.cfg.Log.Error("send a notice that a message waits", "id", a.ID, "error", err)
	}
}

// Changed removes the buttons of an answered request wherever it is shown, and adds the answer. If a crash prevents the commit, the turn
// makes it when it takes its request up again.
func (n *Notices) Changed(a consent.Approval) {
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	if err := n.settle(ctx, a); err != nil {
		n.cfg.Log.Warn("cannot remove the buttons of a request", "id", a.ID, "error", err)
	}
	n.cfg.Log.Info("approval", "id", a.ID, "state", a.State, "tool", a.Tool, "agent", a.Agent, "requester", a.Requester, "decider", a.Decider)
}

func (n *Notices) settle(ctx context.Context, a consent.Approval) error {
	if a.State == consent.ApprovalPending {
		return nil
	}
	rows, err := n.cfg.Store.Replies(ctx, a.Turn)
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
	return n.send(ctx, a.Turn, replies)
}

// Refused tells a sender on a channel, once a day, that there are too many sessions. A message that is refused for any other reason gets no
// answer.
func (n *Notices) Refused(row mailbox.InboxRow, r channel.Decision) {
	m := row.Message
	if r != channel.SenderSessions || route.Frontend(m.Channel) != route.FrontendChannel || m.Act != "" || m.Noted || !n.cfg.Quota.Tell(m.SenderKey()) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	turn := mailbox.CommandTurn(row.ID)
	err := n.send(ctx, turn, []message.Reply{{
		Key: turn + "/0", Channel: m.Channel, Conversation: m.Conversation, ReplyTo: m.EventID,
		Text: "This message is not answered: you have started as many conversations within a day as this host allows. Continue one of them.",
	}})
	if err != nil {
		n.cfg.Log.Error("send a notice of limits.sender_sessions", "error", err)
	}
}

// sendTimeout bounds the commit of a notice.
const sendTimeout = 10 * time.Second

// send commits replies of a turn and sends those that were not there yet.
func (n *Notices) send(ctx context.Context, turn string, replies []message.Reply) error {
	if len(replies) == 0 {
		return nil
	}
	fresh, err := n.cfg.Store.AddReplies(ctx, turn, replies)
	for _, r := range fresh {
		n.cfg.Outbox.Push(turn, r)
	}
	return err
}
