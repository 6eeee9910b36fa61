// Package owners knows where the owners of a host can be reached, and which of their own requests they may approve.
//
// Start with Owners.Chats. Package route decides who is an owner; packages notice and pairing write the messages to owners.
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

// Chat is a conversation that gets messages for owners.
type Chat struct {
	Channel      string
	Conversation message.Conversation
}

// Key returns the key of the conversation.
func (c Chat) Key() message.ConversationKey {
	return message.NewConversationKey(c.Channel, c.Conversation.ID)
}

// Store knows which senders were ever answered, and where.
type Store interface {
	Senders(ctx context.Context) ([]message.SenderKey, error)
	LastPrivate(ctx context.Context, channel string, sender message.SenderKey) (message.Conversation, error)
}

// Config configures Owners.
type Config struct {
	Store Store
	// Rules returns the configuration in force and its roles.
	Rules func() (*config.Config, *route.Roles)
	Log   *slog.Logger
}

// Owners are the owners of a running host.
type Owners struct{ cfg Config }

// New returns Owners.
func New(cfg Config) *Owners { return &Owners{cfg} }

// maxChats bounds the owners who get the same message.
const maxChats = 20

// Chats returns the conversation in which each owner was last answered in private, whether the configuration lists him by id or by a
// glob. It does not return an owner who has never written.
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

// ToldOfStrangers returns the conversations that get notices about strangers: those that get requests for approval, and the owners'
// private chats. Only channels in use count.
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

// SelfApprove reports whether a requester may grant his own requests: the user of this machine may, and an owner if approvals.self is
// set.
func (o *Owners) SelfApprove(requester message.SenderKey) bool {
	channel := requester.Channel()
	if route.Local(channel) {
		return true
	}
	c, roles := o.cfg.Rules()
	return c.Approvals.Self && roles.Of(channel, requester) == route.Owner
}
