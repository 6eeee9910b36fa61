package watch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/sdk/backoff"
)

// Elsewhere is the way to the conversations that other hosts work for; *peers.Network implements it.
type Elsewhere interface {
	// On reports whether there is a way at all.
	On() bool
	// Join begins to watch a conversation at the host that owns it. The stream ends with ctx.
	Join(ctx context.Context, key message.ConversationKey) (Stream, error)
	// Tell shows events to the watchers at the host that owns a conversation, within a second.
	Tell(ctx context.Context, key message.ConversationKey, events []message.Event) error
}

// Stream is what happens in a conversation at the host that owns it.
type Stream = interface {
	// Past are the events of the turns that run there, up to now.
	Past() []message.Event
	// Next waits for the next event; nil means that nothing has happened lately, and gap that watchers must read the store again. After an
	// error there are no more.
	Next() (e *message.Event, gap bool, err error)
	// Owned asks the store whether that host still owns the conversation.
	Owned(ctx context.Context) bool
	// Close ends the stream.
	Close()
}

const (
	// joinWait is how long a watcher waits until its conversation is joined at another host. After that it begins with what the store has.
	joinWait = 250 * time.Millisecond
	// linger is how long a conversation without a watcher stays joined: a page that loads again finds it so.
	linger = 5 * time.Second
	// firstRetry and lastRetry are the waits before another attempt to join. A change of the conversation ends the wait.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Second
	// maxMirrored bounds the turns of another host in a conversation, and maxWhole the text of one.
	maxMirrored = 64
	maxWhole    = 8 << 20
)

// following is what the hub does while Follow runs.
type following struct {
	ctx  context.Context
	own  Ownership
	from Elsewhere
	log  *slog.Logger
	work sync.WaitGroup
}

// relay passes on what happens in a conversation at another host, as if it happened here.
type relay struct {
	key   message.ConversationKey
	poke  chan struct{} // capacity 1: the conversation has changed
	tried chan struct{} // closed after the first attempt to join

	// Guarded by Hub.mu.
	joined bool
	empty  time.Time // since when nobody watches
}

// begin and end enclose the time in which conversations of other hosts are followed.
func (h *Hub) begin(f *following) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.following = f
}

func (h *Hub) end(f *following) {
	h.mu.Lock()
	h.following = nil
	h.mu.Unlock()
	f.work.Wait()
}

// await has a conversation of another host joined, and waits for that a little. The relay lasts until the caller has begun to watch.
func (h *Hub) await(key message.ConversationKey) {
	h.mu.Lock()
	f := h.following
	h.mu.Unlock()
	if f == nil || !f.from.On() || f.own.Holds(store.ConversationOwner(key)) {
		return
	}
	h.mu.Lock()
	c := h.conversations[key]
	if c == nil {
		c = h.add(key)
	}
	r := h.relayed(f, key, c)
	if r != nil {
		r.empty = time.Now()
	}
	h.mu.Unlock()
	if r == nil {
		return
	}
	select {
	case <-r.tried:
	case <-time.After(joinWait):
	}
}

// relayed returns the relay of a conversation; nil if following has ended. mu is held.
func (h *Hub) relayed(f *following, key message.ConversationKey, c *conversation) *relay {
	if c.relay == nil {
		if h.following != f {
			h.tidy(key, c)
			return nil
		}
		r := &relay{key: key, poke: make(chan struct{}, 1), tried: make(chan struct{}), empty: time.Now()}
		c.relay = r
		f.work.Go(func() { h.relay(f, c, r) })
	}
	return c.relay
}

// relay joins a conversation whenever another host owns it, until nobody has watched it for a while.
func (h *Hub) relay(f *following, c *conversation, r *relay) {
	settle := sync.OnceFunc(func() { close(r.tried) })
	defer settle()
	wait := backoff.Backoff{First: firstRetry, Most: lastRetry}
	for !h.abandon(f.ctx, c, r) {
		if !f.own.Holds(store.ConversationOwner(r.key)) {
			joined, err := h.mirror(f, c, r, settle)
			if joined {
				wait.Reset()
			}
			f.log.Debug("a conversation of another host is not followed", "conversation", r.key, "error", err)
		}
		settle()
		timer := time.NewTimer(wait.Failed(0))
		select {
		case <-r.poke:
		case <-timer.C:
		case <-f.ctx.Done():
		}
		timer.Stop()
	}
}

// abandon ends a relay if nobody needs it.
func (h *Hub) abandon(ctx context.Context, c *conversation, r *relay) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() == nil && !r.unwatched(c) {
		return false
	}
	c.relay = nil
	h.tidy(r.key, c)
	return true
}

// unwatched reports whether nobody has watched for a while; Hub.mu is held.
func (r *relay) unwatched(c *conversation) bool {
	if len(c.watchers) > 0 {
		r.empty = time.Now()
	}
	return time.Since(r.empty) > linger
}

var (
	errMoved     = errors.New("the conversation has moved")
	errUnwatched = errors.New("nobody watches it")
	errTooMuch   = errors.New("the other host tells too much")
)

// mirror joins a conversation, and passes on what happens there until that ends. It returns whether it has joined, and why it has ended.
func (h *Hub) mirror(f *following, c *conversation, r *relay, settle func()) (joined bool, err error) {
	s, err := f.from.Join(f.ctx, r.key)
	if err != nil {
		return false, err
	}
	defer s.Close()
	defer h.part(c, r)
	if !h.join(c, r, s.Past()) {
		return false, errTooMuch
	}
	settle()
	for {
		e, gap, err := s.Next()
		switch {
		case err != nil:
			return true, err
		case f.own.Holds(store.ConversationOwner(r.key)):
			return true, errMoved
		case !h.passOn(c, r, e, gap):
			return true, errTooMuch
		}
		select {
		case <-r.poke:
			if !s.Owned(f.ctx) {
				return true, errMoved
			}
		default:
		}
		h.mu.Lock()
		over := r.unwatched(c)
		h.mu.Unlock()
		if over {
			return true, errUnwatched
		}
	}
}

// join takes the turns that run at another host. Those who watch already must read the store again, because something may have happened
// since they have.
func (h *Hub) join(c *conversation, r *relay, past []message.Event) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.joined = true
	c.cut()
	for _, e := range past {
		if c.remember(e, r); !c.bounded() {
			return false
		}
	}
	return true
}

// part forgets the turns of another host. The watchers must read the store again.
func (h *Hub) part(c *conversation, r *relay) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.joined = false
	c.forget(r)
	c.cut()
}

// passOn passes on an event of another host.
func (h *Hub) passOn(c *conversation, r *relay, e *message.Event, gap bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if gap {
		c.cut()
	}
	if e == nil {
		return true
	}
	c.remember(*e, r)
	c.show(*e)
	return c.bounded()
}

// bounded reports whether the turns of another host are of a size that is believable.
func (c *conversation) bounded() bool {
	n := 0
	for _, t := range c.turns {
		if t.from == nil {
			continue
		}
		if n++; n > maxMirrored || t.size > maxWhole {
			return false
		}
	}
	return true
}

// Local is Watch for another host: it has what happens here alone.
func (h *Hub) Local(channel, id string) (told []message.Event, events <-chan message.Event, stop func()) {
	return h.watch(message.NewConversationKey(channel, id), func(t *turn) bool { return t.from == nil })
}

// Show shows events of this host in a conversation that another one may own. Its watchers see them there, and those here with them. It
// returns within about a second.
func (h *Hub) Show(ctx context.Context, channel, id string, events ...message.Event) {
	key := message.NewConversationKey(channel, id)
	h.mu.Lock()
	f := h.following
	h.mu.Unlock()
	if f != nil && f.from.On() && !f.own.Holds(store.ConversationOwner(key)) && f.from.Tell(ctx, key, events) == nil {
		return // they come back from there; a watcher here who has not joined reads the store
	}
	for _, e := range events {
		h.Publish(e)
	}
}
