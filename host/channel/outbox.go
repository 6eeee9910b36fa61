package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/lane"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// OutboxConfig is what an Outbox needs.
type OutboxConfig struct {
	Store store.Outbox
	Log   *slog.Logger
	Now   func() time.Time
	// SendTimeout bounds one send; 3 min when zero, since some channels have to send slowly.
	SendTimeout time.Duration
	// Count is told what became of each attempt, for metrics; it may be nil.
	Count func(channel, outcome string)
}

// Outbox delivers replies: in order within a conversation, side by side otherwise. A channel
// that is not there keeps its replies waiting; other channels do not notice.
type Outbox struct {
	cfg   OutboxConfig
	lanes *lane.Group[store.OutboxRow]

	mu      sync.Mutex
	senders map[string]Sender
	changed chan struct{} // closed and replaced whenever senders changes
	loaded  bool
	early   []store.OutboxRow // pushed before what an earlier process left was loaded
}

// maxConversations bounds the conversations with deliveries under way or waiting for their channel.
const maxConversations = 1 << 16

// NewOutbox returns an outbox.
func NewOutbox(cfg OutboxConfig) *Outbox {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.SendTimeout == 0 {
		cfg.SendTimeout = 3 * time.Minute
	}
	if cfg.Count == nil {
		cfg.Count = func(string, string) {}
	}
	o := &Outbox{cfg: cfg, senders: map[string]Sender{}, changed: make(chan struct{})}
	o.lanes = lane.New(maxConversations, o.deliver)
	return o
}

// Run sends what an earlier process left and everything that Push brings, until ctx ends.
func (o *Outbox) Run(ctx context.Context) error {
	rows, err := o.cfg.Store.UnsentOutbox(ctx)
	if err != nil {
		return fmt.Errorf("load outbox: %w", err)
	}
	o.load(rows)
	return o.lanes.Run(ctx)
}

// load queues what an earlier process left, then what was pushed meanwhile. A reply of the second sort may be among the
// first; it must neither overtake an older one nor be queued twice.
func (o *Outbox) load(rows []store.OutboxRow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	there := make(map[string]bool, len(rows))
	for _, r := range rows {
		there[r.Reply.Key] = true
		o.queue(r)
	}
	for _, r := range o.early {
		if !there[r.Reply.Key] {
			o.queue(r)
		}
	}
	o.early, o.loaded = nil, true
}

// Push takes a reply that was committed.
func (o *Outbox) Push(turn string, r message.Reply) {
	row := store.OutboxRow{Turn: turn, Reply: r, State: store.OutboxPending}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.loaded {
		o.early = append(o.early, row)
		return
	}
	o.queue(row)
}

func (o *Outbox) queue(r store.OutboxRow) {
	o.lanes.Push(r.Reply.Channel+":"+r.Reply.Conversation.ID, r)
}

// Attach makes s the way to a channel instance until the returned function is called.
func (o *Outbox) Attach(channel string, s Sender) (detach func()) {
	o.set(channel, s)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.senders[channel] == s {
			delete(o.senders, channel)
		}
	}
}

func (o *Outbox) set(channel string, s Sender) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.senders[channel] = s
	close(o.changed)
	o.changed = make(chan struct{})
}

// sender waits for the way to a channel.
func (o *Outbox) sender(ctx context.Context, channel string) (Sender, error) {
	for {
		o.mu.Lock()
		s, changed := o.senders[channel], o.changed
		o.mu.Unlock()
		if s != nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// deliver sends the first reply of a conversation for as long as it takes.
func (o *Outbox) deliver(ctx context.Context, _ string, rows []store.OutboxRow) []store.OutboxRow {
	row := rows[0]
	log := o.cfg.Log.With("channel", row.Reply.Channel, "turn", row.Turn, "key", row.Reply.Key)
	for {
		done, wait, err := o.attempt(ctx, &row)
		switch {
		case err != nil && errors.Is(err, store.ErrConflict):
			log.Error("outbox row was settled elsewhere", "error", err)
			return rows[1:]
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			log.Error("store the state of a delivery", "error", err)
			wait = time.Second
		case done:
			if row.State == store.OutboxDead {
				log.Error("reply was not delivered", "note", row.Note, "attempts", row.Attempts)
			}
			return rows[1:]
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// attempt makes one try and commits what came of it. A crash between its two commits leaves the row in state
// Sending, which says "may have been sent".
func (o *Outbox) attempt(ctx context.Context, row *store.OutboxRow) (done bool, wait time.Duration, err error) {
	if wait := row.NextTry.Sub(o.cfg.Now()); wait > 0 {
		return false, wait, nil
	}
	s, err := o.sender(ctx, row.Reply.Channel)
	if err != nil {
		return false, 0, err
	}
	if row.State == store.OutboxSending && !s.Recognises() {
		if settled, err := o.settle(ctx, s, row); settled || err != nil {
			return settled, 0, err
		}
	}
	row.Attempts++
	if !s.Recognises() {
		row.State, row.Note = store.OutboxSending, ""
		if err := o.cfg.Store.SetOutbox(ctx, *row); err != nil {
			return false, 0, err
		}
	}
	ctx = context.WithoutCancel(ctx) // what has begun is brought to its end, so that its outcome is known
	res := o.send(ctx, s, row.Reply)
	o.cfg.Count(row.Reply.Channel, string(res.Outcome))
	return o.record(ctx, row, res)
}

// settle decides on a row whose send may have happened: the channel knows, or it is sent again with a mark, or it is given up.
func (o *Outbox) settle(ctx context.Context, s Sender, row *store.OutboxRow) (bool, error) {
	if r, ok := s.(Reconciler); ok {
		ctx, cancel := context.WithTimeout(ctx, o.cfg.SendTimeout)
		defer cancel()
		res, err := r.Reconcile(ctx, row.Reply)
		if err == nil && (res.Outcome == message.Sent || res.Outcome == message.Duplicate) {
			done, _, err := o.record(ctx, row, res)
			return done, err
		}
		if err == nil && res.Outcome == message.NotSent {
			return false, nil
		}
	}
	if row.Reply.PossibleDuplicate && (row.Note == noteUnknown || row.Attempts >= maxResends) {
		row.State, row.Note = store.OutboxDead, "outcome unknown twice"
		return true, o.cfg.Store.SetOutbox(ctx, *row)
	}
	row.Reply.PossibleDuplicate = true
	return false, nil
}

// noteUnknown tells a send whose channel could not say what became of it from one that was cut off by the end of the
// host. The first is given up when it happens to a marked resend, for the channel will not know the next time either. The
// second says nothing about the channel: a loss would be worse than a further copy with a mark.
const noteUnknown = string(message.Unknown)

// maxResends bounds the latter, should it be this very send that ends the host.
const maxResends = 10

func (o *Outbox) send(ctx context.Context, s Sender, r message.Reply) Result {
	ctx, cancel := context.WithTimeout(ctx, o.cfg.SendTimeout)
	defer cancel()
	res, err := s.Send(ctx, r)
	if err != nil {
		return Result{Outcome: message.Unknown}
	}
	return res
}

// record commits an outcome and says whether the row is settled, or when to try again.
func (o *Outbox) record(ctx context.Context, row *store.OutboxRow, res Result) (done bool, wait time.Duration, err error) {
	switch res.Outcome {
	case message.Sent, message.Duplicate:
		row.State, row.PlatformIDs, row.Note = store.OutboxSent, res.PlatformIDs, string(res.Outcome)
		return true, 0, o.cfg.Store.SetOutbox(ctx, *row)
	case message.NotSent:
		row.State, wait = store.OutboxPending, max(res.RetryAfter, backoff(row.Attempts))
	default:
		row.State, row.Note, wait = store.OutboxSending, noteUnknown, backoff(row.Attempts)
	}
	if row.Attempts >= maxAttempts {
		row.State, row.Note = store.OutboxDead, fmt.Sprintf("gave up after %d attempts", row.Attempts)
		return true, 0, o.cfg.Store.SetOutbox(ctx, *row)
	}
	row.NextTry = o.cfg.Now().Add(wait).UTC()
	return false, wait, o.cfg.Store.SetOutbox(ctx, *row)
}

// maxAttempts bounds the tries of one reply; with the back-off they last for about a day.
const maxAttempts = 300

// backoff is the wait after attempt n: doubling from 250 ms to 5 min, with half of it at random.
func backoff(n int) time.Duration {
	d := min(250*time.Millisecond<<min(n, 20), 5*time.Minute)
	return d/2 + rand.N(d/2)
}
