// Package notice writes the messages by which the host itself speaks over channels: that a call needs an approval and how the request
// ended, what a message waits for, and why nobody answers it.
//
// Start with Notices.Asked. Each message has a key that comes from its cause, so that what is said again after a restart is sent once.
// The words of a request are those of package approval, which decides about it; answers to commands are written by package command.
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

// Requests says how far the answer to a request may reach; *approval.Service implements it.
type Requests interface {
	Offer(a consent.Approval) approval.Offer
}

// Owners are where owners are reached; *owners.Owners implements it.
type Owners interface {
	Chats(ctx context.Context) []owners.Chat
	SelfApprove(requester string) bool
}

// Quota reports once a day of each sender that he may be told of his limit.
type Quota interface {
	Tell(sender string) bool
}

// Config is what Notices need.
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

// Asked tells people over channels that a call waits for one of them: the conversation that it comes from, and those that the
// configuration names or, where it names none and the requester may not approve himself, the owners in private.
func (n *Notices) Asked(ctx context.Context, t turnlog.Turn, replyTo string, a consent.Approval) {
	c := n.cfg.Config()
	told := slices.Clone(c.Approvals.Conversations)
	if len(told) == 0 && !n.cfg.Owners.SelfApprove(a.Requester) {
		for _, chat := range n.cfg.Owners.Chats(ctx) {
			told = append(told, chat.Key())
		}
	}
	if to := delivery(c, t); to != "" && !slices.Contains(told, to) {
		told = append(told, to)
	}
	if err := n.send(context.WithoutCancel(ctx), t.ID, requests(told, t, replyTo, a, n.cfg.Requests.Offer(a))); err != nil {
		n.cfg.Log.Error("send a request for approval", "id", a.ID, "error", err)
	}
}

// delivery is the conversation that hears of a schedule's turn; "" for other turns.
func delivery(c *config.Config, t turnlog.Turn) string {
	for _, s := range c.Schedules {
		if t.Channel == message.ScheduleDoor && t.Conversation.ID == s.Name {
			return s.Deliver
		}
	}
	return ""
}

// Behind tells the sender of a message over a channel that it waits for the approval of an earlier call.
func (n *Notices) Behind(t turnlog.Turn, m message.Message, a consent.Approval) {
	if route.Door(m.Channel) != route.DoorChannel {
		return // the page and the terminal show the request itself, and programs read nothing but answers
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	err := n.send(ctx, t.ID, []message.Reply{{
		Key: t.ID + "/behind/" + a.ID + "/" + m.ConversationKey(), Channel: m.Channel, Conversation: m.Conversation, ReplyTo: m.EventID,
		Text: fmt.Sprintf("This waits: the answer before it needs an approval of `%s` (request %s). `/stop` ends that answer.", a.Tool, a.ID),
	}})
	if err != nil {
		n.cfg.Log.Error("send what a message waits for", "id", a.ID, "error", err)
	}
}

// Changed takes the buttons of a request away that has its answer, wherever it is shown, and says there what the answer was. What a
// crash keeps from being committed here is committed when the turn takes its request up again.
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

// Refused tells the sender of a message over a channel, once a day, that he has begun too many sessions. A message that is refused for
// any other reason has no answer.
func (n *Notices) Refused(row mailbox.InboxRow, r channel.Ruling) {
	m := row.Message
	if r != channel.SenderSessions || route.Door(m.Channel) != route.DoorChannel || m.Act != "" || m.Noted || !n.cfg.Quota.Tell(m.SenderKey()) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	turn := mailbox.CommandTurn(row.ID)
	err := n.send(ctx, turn, []message.Reply{{
		Key: turn + "/0", Channel: m.Channel, Conversation: m.Conversation, ReplyTo: m.EventID,
		Text: "This is not answered: you have begun as many conversations within a day as this host allows. Go on in one of them.",
	}})
	if err != nil {
		n.cfg.Log.Error("send a notice of limits.sender_sessions", "error", err)
	}
}

// sendTimeout bounds the commit of a notice.
const sendTimeout = 10 * time.Second

// send commits replies of a turn and hands those on that were not there yet.
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
