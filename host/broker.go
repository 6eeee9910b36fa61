package host

import (
	"sync"

	"github.com/flynnhost/flynn/host/message"
)

// broker shows events to those who watch a conversation. It keeps nothing: the store is the truth, and a watcher
// that falls behind is cut off, to read the store again.
type broker struct {
	mu       sync.Mutex
	watchers map[string]map[chan message.Event]struct{} // by "channel:conversation"
}

// watcherBuffer is the number of events that a watcher may lag behind.
const watcherBuffer = 256

func newBroker() *broker { return &broker{watchers: map[string]map[chan message.Event]struct{}{}} }

func (b *broker) publish(e message.Event) {
	key := e.Channel + ":" + e.Conversation
	b.mu.Lock()
	defer b.mu.Unlock()
	for w := range b.watchers[key] {
		select {
		case w <- e:
		default:
			b.remove(key, w)
		}
	}
}

func (b *broker) subscribe(channel, conversation string) (<-chan message.Event, func()) {
	key, w := channel+":"+conversation, make(chan message.Event, watcherBuffer)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watchers[key] == nil {
		b.watchers[key] = map[chan message.Event]struct{}{}
	}
	b.watchers[key][w] = struct{}{}
	return w, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.remove(key, w)
	}
}

// remove closes a watcher once; b.mu is held.
func (b *broker) remove(key string, w chan message.Event) {
	if _, ok := b.watchers[key][w]; !ok {
		return
	}
	close(w)
	delete(b.watchers[key], w)
	if len(b.watchers[key]) == 0 {
		delete(b.watchers, key)
	}
}
