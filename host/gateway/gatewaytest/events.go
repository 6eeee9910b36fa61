package gatewaytest

import (
	"context"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

var _ gateway.Events = (*Backend)(nil)

// Changed tells the readers of events that something has changed. The host tells of what is in it by itself; a test tells of what it has
// put before it.
func (b *Backend) Changed(kind store.ChangeKind, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(kind, id, "")
}

// note is Changed for what is a sender's. The lock is held.
func (b *Backend) note(kind store.ChangeKind, id string, of message.SenderKey) {
	b.changes = append(b.changes, store.Change{Seq: int64(len(b.changes) + 1), Kind: kind, ID: id, Of: of})
	if b.more != nil {
		close(b.more)
		b.more = nil
	}
}

// changed notes that a conversation has changed. The lock is held.
func (b *Backend) changed(c *conversation) {
	var of message.SenderKey
	if len(c.senders) > 0 {
		of = c.senders[0]
	}
	b.note(store.Conversations, c.info.Channel+"/"+c.info.ID, of)
}

// Read implements gateway.Events.
func (b *Backend) Read(_ context.Context, after int64, limit int) ([]store.Change, store.Kept, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := store.Kept{Epoch: "test", Last: int64(len(b.changes))}
	if !kept.From(after) {
		return nil, kept, nil
	}
	list := b.changes[after:]
	return list[:min(limit, len(list))], kept, nil
}

// More implements gateway.Events.
func (b *Backend) More() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more == nil {
		b.more = make(chan struct{})
	}
	return b.more
}

// Over implements gateway.Events: a stream ends with its request.
func (b *Backend) Over() <-chan struct{} { return b.ctx.Done() }

// Enter implements gateway.Events.
func (b *Backend) Enter() (leave func()) { return func() {} }
