package backend

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Fork implements gateway.Conversations.
func (c Conversations) Fork(ctx context.Context, channel, conversation string, f gateway.Fork, by gateway.Caller) (gateway.Forked, error) {
	to := gateway.Forked{ConversationName: by.Own(store.NewID(time.Now()))}
	turns, err := c.allTurns(ctx, channel, conversation)
	if err != nil {
		return to, err
	}
	at, err := c.turnWith(ctx, turns, f.Entry)
	if err != nil {
		return to, err
	}
	if !f.Before {
		at++
	}
	to.Files, err = c.Keeper.Fork(ctx, turns[:at], turns[at:], turnlog.Branch{
		Channel: to.Channel, Conversation: message.Conversation{ID: to.ID, Kind: message.DM}, Sender: by.Sender,
	})
	return to, err
}

// allTurns returns the turns of a conversation, oldest first.
func (c Conversations) allTurns(ctx context.Context, channel, conversation string) ([]turnlog.Turn, error) {
	const all = 1 << 30
	turns, err := c.Store.History(ctx, channel, conversation, all)
	if err == nil && len(turns) == 0 {
		err = store.NotFound("nothing was answered in " + channel + "/" + conversation)
	}
	return turns, err
}

// turnWith returns the index of the turn that has an entry.
func (c Conversations) turnWith(ctx context.Context, turns []turnlog.Turn, key string) (int, error) {
	for i, t := range slices.Backward(turns) {
		if key == transcript.ReplyKey(t.ID) {
			return i, nil
		}
	}
	for i, t := range slices.Backward(turns) {
		pieces, err := c.describe(ctx, t)
		if err != nil {
			return 0, err
		}
		if slices.ContainsFunc(pieces, func(p transcript.Piece) bool { return p.Key == key }) {
			return i, nil
		}
	}
	return 0, store.NotFound("the conversation has no entry " + strings.ToValidUTF8(key, "?"))
}
