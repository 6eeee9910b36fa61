package channel

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// drafts are the messages that show unfinished answers, and the views that update them. Every draft is stored before it is sent, so that
// the process after a crash knows that there may be one.
type drafts struct {
	store  mailbox.Drafts
	log    *slog.Logger
	loaded chan struct{} // closed by load

	mu    sync.Mutex
	known map[int64]mailbox.Draft // by the message that is answered
	views map[int64]*view         // that update a draft
}

func newDrafts(s mailbox.Drafts, log *slog.Logger) *drafts {
	return &drafts{store: s, log: log, loaded: make(chan struct{}), known: map[int64]mailbox.Draft{}, views: map[int64]*view{}}
}

// load loads the drafts that an earlier process left.
func (b *drafts) load(ctx context.Context) error {
	if err := b.reload(ctx); err != nil {
		return err
	}
	close(b.loaded)
	return nil
}

// reload adds the drafts that are in the store, and replaces those that are known: another host may have sent them since.
func (b *drafts) reload(ctx context.Context) error {
	left, err := b.store.OpenDrafts(ctx)
	if err != nil {
		return fmt.Errorf("load drafts: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range left {
		b.known[d.Inbox] = d
	}
	return nil
}

// put commits a draft.
func (b *drafts) put(ctx context.Context, d mailbox.Draft) error {
	if err := b.store.PutDraft(ctx, d); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known[d.Inbox] = d
	return nil
}

func (b *drafts) get(inbox int64) (mailbox.Draft, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, ok := b.known[inbox]
	return d, ok
}

// forget drops a draft that is complete or lost.
func (b *drafts) forget(ctx context.Context, inbox int64) error {
	b.mu.Lock()
	_, ok := b.known[inbox]
	b.mu.Unlock()
	if !ok {
		return nil
	}
	if err := persist(ctx, b.log, func(ctx context.Context) error { return b.store.DropDraft(ctx, inbox) }); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.known, inbox)
	return nil
}

// watch records that v updates the draft of an answer, until unwatch.
func (b *drafts) watch(inbox int64, v *view) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.views[inbox] = v
}

func (b *drafts) unwatch(inbox int64, v *view) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.views[inbox] == v {
		delete(b.views, inbox)
	}
}

// settle ends the view of a finished reply, waits for its last call, and returns the draft that it leaves.
func (b *drafts) settle(ctx context.Context, inbox int64) (mailbox.Draft, bool, error) {
	b.mu.Lock()
	v := b.views[inbox]
	b.mu.Unlock()
	if v != nil {
		v.end()
		select {
		case <-v.streamed:
		case <-ctx.Done():
			return mailbox.Draft{}, false, ctx.Err()
		}
	}
	d, ok := b.get(inbox)
	return d, ok, nil
}

// draftKey returns the idempotency key of the draft of a reply. It differs from the reply's, because the outcome of the draft says nothing
// about the reply.
func draftKey(key string) string { return key + "/draft" }

// find looks up the platform's id of a draft whose sending was cut off. Without an id the draft is lost, and people see the beginning of
// an answer above the answer.
func (b *drafts) find(ctx context.Context, s Sender, d mailbox.Draft, r message.Reply) (mailbox.Draft, bool) {
	r.Key = d.Key
	r.Attachments, r.Buttons = nil, nil
	var res message.Delivery
	var err error
	ctx, cancel := context.WithTimeout(ctx, draftTimeout)
	defer cancel()
	if asks, ok := reconciler(s); ok {
		res, err = asks.Reconcile(ctx, r)
	} else if to, ok := drafter(s); ok && s.Capabilities().Idempotent {
		res, err = to.SendDraft(ctx, r) // sends it, or returns the id of the first time
	}
	if err != nil || len(res.PlatformIDs) != 1 || !res.Arrived() {
		return d, false
	}
	d.MessageID = res.PlatformIDs[0]
	return d, true
}

// draftTimeout bounds a call about a draft.
const draftTimeout = 30 * time.Second

// revision numbers the edits of a message by the clock, so that they rise over restarts without a commit for each.
func revision(now time.Time, last uint64) uint64 { return max(last+1, uint64(now.UnixMicro())) }
