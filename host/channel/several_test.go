package channel

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// oneOf is the ownership of one of several hosts. No other has a channel.
type oneOf struct {
	mu     sync.Mutex
	held   map[store.OwnerKey]context.CancelFunc
	rest   time.Time // when nothing of a previous owner can be under way any more
	claims int
}

func (o *oneOf) Shared() bool                { return true }
func (o *oneOf) Begin(context.Context) error { return nil }

func (o *oneOf) Rest(context.Context) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(0, time.Until(o.rest))
}

func (o *oneOf) Holds(key store.OwnerKey) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held[key] != nil
}

func (o *oneOf) Enter(ctx context.Context, key store.OwnerKey, begin func(context.Context) error) (context.Context, func(), error) {
	o.mu.Lock()
	before := o.held[key]
	work, cancel := context.WithCancel(ctx)
	if o.held[key] = cancel; before == nil {
		o.claims++
	}
	o.mu.Unlock()
	if before == nil {
		if err := begin(work); err != nil {
			return nil, nil, err
		}
	}
	return work, cancel, nil
}

func (o *oneOf) Yield(_ context.Context, key store.OwnerKey) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if cancel := o.held[key]; cancel != nil {
		cancel()
		delete(o.held, key)
	}
	return nil
}

// sends runs an outbox until stop is called.
func sends(t *testing.T, o *Outbox) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- o.Run(ctx) }()
	return func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	}
}

// TestAChannelWithoutItsPluginIsLeftToOthers: a host claims a channel when its plugin is attached, and sends what waits; it leaves the
// channel when the plugin is gone for long.
func TestAChannelWithoutItsPluginIsLeftToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply := func(key string) message.Reply {
			return message.Reply{Key: key, Channel: "hook", Conversation: message.Conversation{ID: "c"}, Text: key}
		}
		table := newMemory()
		table.path = map[string][]mailbox.OutboxState{}
		own := &oneOf{held: map[store.OwnerKey]context.CancelFunc{}}
		o := NewOutbox(OutboxConfig{Store: table, Log: slog.New(slog.DiscardHandler), Ownership: own})
		defer sends(t, o)()
		push := func(key string) {
			if err := table.SetOutbox(t.Context(), mailbox.OutboxRow{Reply: reply(key), State: mailbox.OutboxPending}); err != nil {
				t.Error(err)
			}
			o.Push("t", reply(key))
			synctest.Wait()
		}
		push("early")
		if n := len(o.Waiting()); n != 0 || own.claims != 0 {
			t.Errorf("without its plugin %d channels wait, claimed %d times", n, own.claims)
		}
		s := &script{recognises: true}
		detach := o.Attach("hook", s)
		synctest.Wait()
		if len(s.sent) != 1 || own.claims != 1 {
			t.Errorf("with its plugin %q is sent, claimed %d times", s.sent, own.claims)
		}
		detach()
		push("late")
		time.Sleep(yieldAfter - time.Millisecond)
		synctest.Wait()
		key := store.ChannelOwner("hook")
		if !own.Holds(key) {
			t.Error("the channel is left at once")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if own.Holds(key) || len(o.Waiting()) != 0 {
			t.Errorf("the channel is kept, %v wait", o.Waiting())
		}
		defer o.Attach("hook", s)()
		synctest.Wait()
		if len(s.sent) != 2 || own.claims != 2 {
			t.Errorf("with its plugin again %q is sent, claimed %d times", s.sent, own.claims)
		}
	})
}

// meanwhile is a table of replies with something that happens while it is read.
type meanwhile struct {
	*memory
	do func()
}

func (m meanwhile) UnsentOutbox(ctx context.Context) ([]mailbox.OutboxRow, error) {
	rows, err := m.memory.UnsentOutbox(ctx)
	m.do()
	return rows, err
}

// TestRepliesOfAnotherHostAreNotOvertaken: a reply that is committed here while this host reads what another one has left unsent is sent after
// that.
func TestRepliesOfAnotherHostAreNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply := func(key string) message.Reply {
			return message.Reply{Key: key, Channel: "hook", Conversation: message.Conversation{ID: "c"}, Text: key}
		}
		table := newMemory(mailbox.OutboxRow{Reply: reply("left"), State: mailbox.OutboxPending})
		var o *Outbox
		once := sync.OnceFunc(func() {
			if err := table.SetOutbox(t.Context(), mailbox.OutboxRow{Reply: reply("new"), State: mailbox.OutboxPending}); err != nil {
				t.Error(err)
			}
			o.Push("t", reply("new"))
		})
		own := &oneOf{held: map[store.OwnerKey]context.CancelFunc{}}
		o = NewOutbox(OutboxConfig{Store: meanwhile{table, once}, Log: slog.New(slog.DiscardHandler), Ownership: own})
		defer sends(t, o)()
		s := &script{recognises: true}
		defer o.Attach("hook", s)()
		synctest.Wait()
		if !slices.Equal(s.sent, []string{"left", "new"}) {
			t.Errorf("%q is sent", s.sent)
		}
	})
}
