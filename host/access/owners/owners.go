// Package owners says where the owners of a host are reached, and what they may do about their own requests.
//
// Start with Owners.Chats. Package route decides who is an owner; packages notice and pairing write what owners are told.
package owners

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// Chat is a conversation in which owners are told something.
type Chat struct {
	Channel      string
	Conversation message.Conversation
}

// Key returns the key of the conversation.
func (c Chat) Key() message.ConversationKey {
	return message.NewConversationKey(c.Channel, c.Conversation.ID)
}

// Store knows who was ever answered, and where.
type Store interface {
	Senders(ctx context.Context) ([]message.SenderKey, error)
	LastPrivate(ctx context.Context, channel string, sender message.SenderKey) (message.Conversation, error)
}

// Config is what Owners need.
type Config struct {
	Store Store
	// Rules returns the configuration in force and its roles.
	Rules func() (*config.Config, *route.Roles)
	Log   *slog.Logger
}

// Owners are those of a running host.
type Owners struct{ cfg Config }

// New returns Owners.
func New(cfg Config) *Owners { return &Owners{cfg} }

// maxChats bounds the owners who are told of one thing.
const maxChats = 20

// Chats returns where each owner was last answered in private, whether the rules list him by his id or by a glob. An owner who has
// never written has no chat that is known.
func (o *Owners) Chats(ctx context.Context) (chats []Chat) {
	c, roles := o.cfg.Rules()
	senders, err := o.cfg.Store.Senders(ctx)
	for _, sender := range senders {
		channel := sender.Channel()
		if len(chats) == maxChats || !c.Channels[channel].Enabled || roles.Of(channel, sender) != route.Owner {
			continue
		}
		where, failed := o.cfg.Store.LastPrivate(ctx, channel, sender)
		if failed == nil {
			chats = append(chats, Chat{Channel: channel, Conversation: where})
		} else if !errors.Is(failed, store.ErrNotFound) {
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		o.cfg.Log.Warn("cannot look up the conversations of owners", "error", err)
	}
	return chats
}

// ToldOfStrangers returns the conversations in which owners are told of a stranger: those that are told of approvals, and the owners'
// private chats. Only channels that are in use count.
func (o *Owners) ToldOfStrangers(ctx context.Context) (chats []Chat) {
	c, _ := o.cfg.Rules()
	if !c.Access.PairNotice {
		return nil
	}
	add := func(to Chat) {
		same := func(there Chat) bool {
			return there.Channel == to.Channel && there.Conversation.ID == to.Conversation.ID
		}
		if c.Channels[to.Channel].Enabled && !slices.ContainsFunc(chats, same) {
			chats = append(chats, to)
		}
	}
	for _, where := range c.Approvals.Conversations {
		instance, id, _ := message.ConversationKey(where).Cut()
		add(Chat{Channel: instance, Conversation: message.Conversation{ID: id, Kind: message.DM}})
	}
	for _, chat := range o.Chats(ctx) {
		add(chat)
	}
	return chats
}

// SelfApprove reports whether a requester may grant his own requests: the user of this machine may, and an owner where approvals.self
// says so.
func (o *Owners) SelfApprove(requester message.SenderKey) bool {
	channel := requester.Channel()
	if route.Local(channel) {
		return true
	}
	c, roles := o.cfg.Rules()
	return c.Approvals.Self && roles.Of(channel, requester) == route.Owner
}
