package watch

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Journal tells what has changed, wherever it was; *feed.Feed implements it.
type Journal interface {
	Read(ctx context.Context, after int64, limit int) ([]store.Change, store.Kept, error)
	// More returns a channel that is closed when there are changes after those that Read returns now.
	More() <-chan struct{}
}

// Ownership says which conversations this host works for, if others share its store; *cluster.Member implements it.
type Ownership interface {
	// Shared reports whether other hosts may have the store open.
	Shared() bool
	// Holds reports whether the host owns a key as far as it knows.
	Holds(key store.OwnerKey) bool
}

// changesAtOnce is how many changes are read at a time.
const changesAtOnce = 1000

// Follow shows what happens in conversations of other hosts, until ctx ends. As long as such a host is not reached, its events do not come
// here: watchers of a conversation that changes begin again with the history.
func (h *Hub) Follow(ctx context.Context, j Journal, o Ownership, from Elsewhere, log *slog.Logger) error {
	if !o.Shared() {
		<-ctx.Done()
		return nil
	}
	f := &following{ctx: ctx, own: o, from: from, log: log}
	h.begin(f)
	defer h.end(f)
	here := func(key message.ConversationKey) bool { return o.Holds(store.ConversationOwner(key)) }
	after := int64(-1) // not known yet
	for {
		more := j.More()
		if next, err := h.readOn(ctx, j, here, after); err == nil {
			after = next
		} else if ctx.Err() == nil {
			log.Debug("cannot read what other hosts have changed", "error", err) // a warning would be a change
		}
		select {
		case <-more:
		case <-time.After(time.Minute): // after an error
		case <-ctx.Done():
			return nil
		}
	}
}

// readOn cuts watchers off for the changes after a number, and returns the last number.
func (h *Hub) readOn(ctx context.Context, j Journal, here func(message.ConversationKey) bool, after int64) (last int64, err error) {
	for {
		list, kept, err := j.Read(ctx, max(after, 0), changesAtOnce)
		switch {
		case err != nil:
			return after, err
		case after < 0:
			return kept.Last, nil
		case !kept.From(after): // a gap
			h.cutOff(func(key message.ConversationKey) bool { return !here(key) })
			return kept.Last, nil
		}
		changed := map[message.ConversationKey]bool{}
		for _, c := range list {
			after = c.Seq
			if channel, id, is := strings.Cut(c.ID, "/"); is && c.Kind == store.Conversations {
				changed[message.NewConversationKey(channel, id)] = true
			}
		}
		h.cutOff(func(key message.ConversationKey) bool { return changed[key] && !here(key) })
		if len(list) < changesAtOnce {
			return after, nil
		}
	}
}

// cutOff ends the subscriptions to some conversations that have changed at other hosts, as if their watchers had been too slow. Those whose
// events come here see the change without that.
func (h *Hub) cutOff(which func(message.ConversationKey) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, c := range h.conversations {
		if !which(key) {
			continue
		}
		if f := h.following; f != nil && f.from.On() && len(c.watchers) > 0 {
			h.relayed(f, key, c)
		}
		if c.relay != nil {
			select {
			case c.relay.poke <- struct{}{}:
			default:
			}
			if c.relay.joined {
				continue
			}
		}
		c.cut()
		h.tidy(key, c)
	}
}
