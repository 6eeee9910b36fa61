package host

import (
	"context"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

// DeleteSession implements gateway.Sessions.
func (b backend) DeleteSession(ctx context.Context, key, by string, stop bool) error {
	return b.h.sessions.Delete(ctx, key, by, stop)
}

var _ gateway.Conversations = backend{}

// DeleteConversation implements gateway.Conversations for the doors of this machine, where a conversation is a place.
func (b backend) DeleteConversation(ctx context.Context, channel, conversation, by string, stop bool) error {
	place := channel + ":" + conversation
	if !slices.Contains(config.OwnDoors(), channel) {
		return store.NotFound(place + " is no conversation of this machine: write /delete in it")
	}
	return b.h.sessions.DeleteConversation(ctx, place, by, stop)
}

// worded is an error in words for people.
type worded struct {
	text string
	err  error
}

func (w worded) Error() string { return w.text }
func (w worded) Unwrap() error { return w.err }
