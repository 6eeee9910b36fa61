package host

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// openPairings opens the desk where strangers are let in.
func (h *Host) openPairings(ctx context.Context) (err error) {
	h.pairings, err = pairing.Open(ctx, pairing.Config{
		Store: h.store, Log: h.log, Events: &h.events, Revoked: func(sender string) { h.runner.StopFor(sender) },
		Role:    func() string { return h.current.Load().config.Access.PairRole },
		Owners:  h.ownersPlaces,
		Replied: func(turn string, r message.Reply) { h.outbox.Push(turn, r) },
	})
	return err
}

// ownersPlaces are the conversations where owners are told of a stranger: those that are told of approvals, and owners' private chats. Only
// channels that are in use count.
func (h *Host) ownersPlaces(ctx context.Context) (places []pairing.Place) {
	c := h.current.Load().config
	if !c.Access.PairNotice {
		return nil
	}
	add := func(channel string, where message.Conversation) {
		p := pairing.Place{Channel: channel, Conversation: where}
		same := func(q pairing.Place) bool { return q.Channel == channel && q.Conversation.ID == where.ID }
		if c.Channels[channel].Enabled && !slices.ContainsFunc(places, same) {
			places = append(places, p)
		}
	}
	for _, where := range c.Approvals.Conversations {
		channel, id, _ := strings.Cut(where, ":")
		add(channel, message.Conversation{ID: id, Kind: message.DM})
	}
	for _, p := range h.ownersChats(ctx) {
		add(p.Channel, p.Conversation)
	}
	return places
}

// maxOwnersTold bounds the owners who are told of one thing.
const maxOwnersTold = 20

// ownersChats are where each owner was last answered in private, whether he is listed by his id or by a glob: who has never spoken has no
// chat that is known.
func (h *Host) ownersChats(ctx context.Context) (chats []pairing.Place) {
	g := h.current.Load()
	senders, err := h.store.Senders(ctx)
	for _, sender := range senders {
		channel, _, _ := strings.Cut(sender, ":")
		if len(chats) == maxOwnersTold || !g.config.Channels[channel].Enabled || g.Roles.Of(channel, sender) != route.Owner {
			continue
		}
		where, failed := h.store.LastPrivate(ctx, channel, sender)
		if failed == nil {
			chats = append(chats, pairing.Place{Channel: channel, Conversation: where})
		} else if !errors.Is(failed, store.ErrNotFound) {
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		h.log.Warn("cannot look up the conversations of owners", "error", err)
	}
	return chats
}

// stranger gives who sent a message a code, if he may have one.
func (h *Host) stranger(ctx context.Context, m message.Message, note, said string) (recorded, fresh bool, err error) {
	return h.pairings.Offer(ctx, pairing.Stranger{Message: m, Note: note, Said: said})
}
