package gatewaytest

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/store"
)

// Search implements gateway.Conversations: it finds a part of a text.
func (b *Backend) Search(_ context.Context, words string, _ message.SenderKey, _ string, limit int) (gateway.Page[gateway.Hit], error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var page gateway.Page[gateway.Hit]
	for _, c := range b.convs {
		for _, e := range c.entries {
			before, after, found := strings.Cut(e.Text, words)
			if found && e.Call == nil && len(page.Items) < limit {
				page.Items = append(page.Items, gateway.Hit{
					Channel: c.info.Channel, Conversation: c.info.ID, Title: c.info.Title, Turn: e.Turn, Key: e.Key, From: e.From, Agent: e.Agent, Time: e.Time,
					Parts: []turnlog.Part{{Text: before}, {Text: words, Hit: true}, {Text: after}},
				})
			}
		}
	}
	return page, nil
}

// Rename implements gateway.Conversations.
func (b *Backend) Rename(_ context.Context, channel, id, title string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.convs[channel+":"+id]
	if !ok || !c.known() {
		return store.ErrNotFound
	}
	c.info.Title = title
	b.changed(c)
	return nil
}

// Fork implements gateway.Conversations.
func (b *Backend) Fork(_ context.Context, channel, id string, f gateway.Fork, by gateway.Caller) (gateway.Forked, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.convs[channel+":"+id]
	if !ok {
		return gateway.Forked{}, store.ErrNotFound
	}
	at := slices.IndexFunc(c.entries, func(e gateway.Entry) bool { return e.Key == f.Entry })
	if at < 0 {
		return gateway.Forked{}, store.ErrNotFound
	}
	turn := c.entries[at].Turn
	upTo := slices.IndexFunc(c.entries, func(e gateway.Entry) bool { return e.Turn == turn })
	for !f.Before && upTo < len(c.entries) && c.entries[upTo].Turn == turn {
		upTo++
	}
	b.serial++
	name := by.Own(fmt.Sprint("fork-", b.serial))
	fork := b.conversation(name.Channel, name.ID)
	fork.entries = slices.Clone(c.entries[:upTo])
	fork.info.Title, fork.info.Last = c.info.Title, c.info.Last
	b.changed(fork)
	return gateway.Forked{ConversationName: name, Files: b.Forked}, nil
}

// PlanUndo implements gateway.Conversations: an undo of what Undoable says.
func (b *Backend) PlanUndo(context.Context, string, string, int) (snapshot.Plan, error) {
	return b.Undoable, nil
}

// Undo implements gateway.Conversations.
func (b *Backend) Undo(_ context.Context, _, _ string, u gateway.Undo, _ gateway.Caller) (snapshot.Plan, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if u.Code != b.Undoable.Code {
		return b.Undoable, store.Conflict(snapshot.ErrChanged.Error())
	}
	b.undone = append(b.undone, u)
	return b.Undoable, nil
}

// Undone returns the undos that were confirmed.
func (b *Backend) Undone() []gateway.Undo {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.undone)
}

// Export implements gateway.Conversations.
func (b *Backend) Export(ctx context.Context, channel, id string, _ bool, w io.Writer) error {
	list, err := b.History(ctx, channel, id, 1<<30)
	for _, e := range list {
		fmt.Fprintf(w, "%s: %s\n", e.From, e.Text)
	}
	return err
}

// BeginKeyed implements store.KeyedWrites.
func (b *Backend) BeginKeyed(_ context.Context, k store.KeyedWrite, _ time.Time, _ int) (store.KeyedWrite, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found, there := b.keyed[[2]string{k.Caller, k.Key}]
	if !there {
		b.putKeyed(k)
	}
	return found, !there, nil
}

// EndKeyed implements store.KeyedWrites.
func (b *Backend) EndKeyed(_ context.Context, k store.KeyedWrite) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.putKeyed(k)
	return nil
}

// putKeyed is called with the lock held.
func (b *Backend) putKeyed(k store.KeyedWrite) {
	if b.keyed == nil {
		b.keyed = map[[2]string]store.KeyedWrite{}
	}
	b.keyed[[2]string{k.Caller, k.Key}] = k
}
