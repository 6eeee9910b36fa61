// Package watch passes the events of turns to the watchers of a conversation.
//
// Start with Hub. A hub keeps nothing for good: the store is the truth, and a watcher that falls behind is cut off, to read the store
// again. While a turn runs, the hub remembers its events, because the store has neither the text that streams nor a step that is not
// committed yet. Watch returns them, so that a watcher that comes in the middle of an answer sees the same as all others.
package watch

import (
	"slices"
	"sync"

	"github.com/flynnhost/flynn/host/message"
)

// DefaultBuffer is the number of events that a watcher may lag behind.
const DefaultBuffer = 256

// maxTold bounds the remembered events of a turn, in bytes. The latest text is kept whole, whatever its size; the oldest events go first,
// which are committed by then.
const maxTold = 256 << 10

// Hub passes events to watchers. Its methods are safe for concurrent use.
type Hub struct {
	buffer int

	mu            sync.Mutex
	conversations map[message.ConversationKey]*conversation // by "channel:conversation"; only those with a watcher, a turn or a relay
	following     *following                                // nil unless Follow runs
}

type conversation struct {
	watchers map[chan message.Event]struct{}
	turns    []*turn // that run, oldest first
	relay    *relay  // nil unless another host's events are passed on
}

// turn holds the remembered events of a running turn.
type turn struct {
	id   string
	from *relay // nil for a turn of this host
	told []piece
	size int
}

// piece is an event, or several text events in one, whose text grows apart from it.
type piece struct {
	event message.Event
	text  []byte
}

// NewHub returns a hub whose watchers may lag buffer events behind; 0 means DefaultBuffer.
func NewHub(buffer int) *Hub {
	if buffer == 0 {
		buffer = DefaultBuffer
	}
	return &Hub{buffer: buffer, conversations: map[message.ConversationKey]*conversation{}}
}

// Publish passes an event to the watchers of its conversation. It does not block.
func (h *Hub) Publish(e message.Event) {
	key := message.NewConversationKey(e.Channel, e.Conversation)
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.conversations[key]
	if c == nil {
		if e.Kind != message.TurnStarted {
			return
		}
		c = h.add(key)
	}
	c.remember(e, nil)
	c.show(e)
	h.tidy(key, c)
}

// show passes an event to the watchers; those that are too slow are cut off.
func (c *conversation) show(e message.Event) {
	for w := range c.watchers {
		select {
		case w <- e:
		default:
			close(w)
			delete(c.watchers, w)
		}
	}
}

// cut ends all subscriptions, as if the watchers had been too slow.
func (c *conversation) cut() {
	for w := range c.watchers {
		close(w)
	}
	clear(c.watchers)
}

// Watch watches a conversation from now on, until stop is called. The channel of a watcher that is too slow is closed. A watcher that also
// reads the store does so after this call. told are the past events of the running turns, with
// streamed text in one piece. They follow what is stored and precede the events of the channel; some of them may be stored by now.
//
// If another host owns the conversation, the events are those of that host, as long as it is reached.
func (h *Hub) Watch(channel, id string) (told []message.Event, events <-chan message.Event, stop func()) {
	key := message.NewConversationKey(channel, id)
	h.await(key)
	return h.watch(key, func(*turn) bool { return true })
}

// watch watches a conversation, with the past events of some turns.
func (h *Hub) watch(key message.ConversationKey, of func(*turn) bool) (told []message.Event, events <-chan message.Event, stop func()) {
	w := make(chan message.Event, h.buffer)
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.conversations[key]
	if c == nil {
		c = h.add(key)
	}
	c.watchers[w] = struct{}{}
	for _, t := range c.turns {
		if !of(t) {
			continue
		}
		for _, p := range t.told {
			e := p.event
			if p.text != nil {
				e.Text = string(p.text)
			}
			told = append(told, e)
		}
	}
	return told, w, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if _, ok := c.watchers[w]; ok {
			close(w)
			delete(c.watchers, w)
		}
		h.tidy(key, c)
	}
}

// add and tidy are called with mu held.
func (h *Hub) add(key message.ConversationKey) *conversation {
	c := &conversation{watchers: map[chan message.Event]struct{}{}}
	h.conversations[key] = c
	return c
}

func (h *Hub) tidy(key message.ConversationKey, c *conversation) {
	if len(c.watchers) == 0 && len(c.turns) == 0 && c.relay == nil && h.conversations[key] == c {
		delete(h.conversations, key)
	}
}

// remember keeps an event of a running turn, which comes from this host or by a relay.
func (c *conversation) remember(e message.Event, from *relay) {
	at := slices.IndexFunc(c.turns, func(t *turn) bool { return t.id == e.Turn && t.from == from })
	switch {
	case e.Kind == message.TurnStarted && e.Turn != "":
		if at >= 0 { // it begins anew
			c.turns = slices.Delete(c.turns, at, at+1)
		}
		t := &turn{id: e.Turn, from: from}
		t.add(e)
		c.turns = append(c.turns, t)
	case at < 0:
	case e.Kind == message.TurnDone:
		c.turns = slices.Delete(c.turns, at, at+1)
	case e.Kind == message.TextReset:
		c.turns[at].void()
	default:
		c.turns[at].add(e)
	}
}

// add appends an event. A text is appended to the text before it if both belong together.
func (t *turn) add(e message.Event) {
	last := len(t.told) - 1
	switch streams := e.Kind == message.TextDelta || e.Kind == message.ToolProgress; {
	case streams && last >= 0 && t.told[last].continues(e):
		t.told[last].text = append(t.told[last].text, e.Text...)
	case streams:
		t.told = append(t.told, piece{e, append([]byte{}, e.Text...)})
		t.size += weight(e)
	default:
		t.told = append(t.told, piece{event: e})
		t.size += weight(e)
	}
	t.size += len(e.Text)
	for len(t.told) > 2 && t.size > maxTold { // the first event is TurnStarted
		t.forget(1)
	}
	if p := &t.told[len(t.told)-1]; e.Kind == message.ToolProgress && len(p.text) > 2*maxTold {
		cut := len(p.text) - maxTold // the result has all of it
		p.text = append([]byte{}, p.text[cut:]...)
		t.size -= cut
	}
}

func (t *turn) forget(i int) {
	p := t.told[i]
	t.size -= max(len(p.text), len(p.event.Text)) + weight(p.event)
	t.told = slices.Delete(t.told, i, i+1)
}

// eventSize is about what an event takes that has nothing in it.
const eventSize = 256

// weight is about what an event takes beside its text.
func weight(e message.Event) int {
	n := eventSize + len(e.Args)
	for _, list := range [][]string{e.Reasons, e.Answers, e.Files} {
		for _, s := range list {
			n += len(s)
		}
	}
	return n
}

// forget drops the turns that came by a relay.
func (c *conversation) forget(from *relay) {
	c.turns = slices.DeleteFunc(c.turns, func(t *turn) bool { return t.from == from })
}

// void forgets the text that streams.
func (t *turn) void() {
	if last := len(t.told) - 1; t.told[last].event.Kind == message.TextDelta {
		t.forget(last)
	}
}

func (p piece) continues(e message.Event) bool {
	return p.event.Kind == e.Kind && p.event.Call == e.Call && p.event.Waiting == e.Waiting && p.event.Agent == e.Agent
}
