package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/internal/keyed"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/sdk/backoff"
)

// OutboxConfig configures an Outbox.
type OutboxConfig struct {
	Store mailbox.Outbox
	// Drafts stores the drafts that Live shows; without it there are none.
	Drafts mailbox.Drafts
	// Media opens the files that go with replies, by digest; without it they are only named.
	Media func(digest string) (io.ReadCloser, error)
	Log   *slog.Logger
	Now   func() time.Time
	// SendTimeout bounds one send; 3 min when zero. Each attachment adds a minute. It starts again whenever a channel has delivered a
	// part of a message (message.Delivery.Resume).
	SendTimeout time.Duration
	Events      *event.Bus // gets Delivered; it may be nil
	// Ownership says over which channels this host sends; without it over all.
	Ownership Ownership
}

// Ownership says over which channels this host sends, if others share its store; *cluster.Member implements it.
type Ownership interface {
	// Shared reports whether other hosts may have the store open.
	Shared() bool
	// Enter claims a key for some work. If the key is new to the host, recover is called first. The context of the work ends when the key is
	// lost. It returns store.ErrOwned if another host owns the key.
	Enter(ctx context.Context, key store.OwnerKey, recover func(context.Context) error) (work context.Context, done func(), err error)
	// Begin returns when a side effect may begin, or why it never may.
	Begin(ctx context.Context) error
	// Rest returns how long a call of a previous owner of the work's key may still be under way.
	Rest(work context.Context) time.Duration
	// Holds reports whether the host owns a key as far as it knows.
	Holds(key store.OwnerKey) bool
	// Yield gives up a key because this host cannot do the work for it, unless it is about to be able to.
	Yield(ctx context.Context, key store.OwnerKey) error
}

// alone owns everything.
type alone struct{}

func (alone) Shared() bool                                { return false }
func (alone) Begin(context.Context) error                 { return nil }
func (alone) Rest(context.Context) time.Duration          { return 0 }
func (alone) Holds(store.OwnerKey) bool                   { return true }
func (alone) Yield(context.Context, store.OwnerKey) error { return nil }
func (alone) Enter(ctx context.Context, _ store.OwnerKey, _ func(context.Context) error) (context.Context, func(), error) {
	return ctx, func() {}, nil
}

// Outbox delivers replies: in order within a conversation, concurrently otherwise. Replies wait while their channel is not
// attached; those of other channels do not.
type Outbox struct {
	cfg    OutboxConfig
	queues *keyed.Group[queued] // by conversation
	drafts *drafts              // nil without OutboxConfig.Drafts

	mu       sync.Mutex
	senders  map[string]Sender
	changed  chan struct{} // closed and replaced whenever senders changes
	loaded   bool
	early    []mailbox.OutboxRow // pushed before load
	waiting  map[string]int      // by channel: replies that are queued or under way
	holdings map[string]*holding // by channel, if other hosts share the store
}

// queued is a reply in its queue, or nothing but a channel that was attached.
type queued struct {
	mailbox.OutboxRow
	in       *holding // in which it was queued
	attached string
}

// holding is the time in which the host owns a channel. Another host may have sent what was queued in an earlier one.
type holding struct {
	known  map[string]bool // keys of the replies that are queued or under way
	loaded bool            // what was unsent before is queued
	early  []mailbox.OutboxRow
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
	o := &Outbox{cfg: cfg, senders: map[string]Sender{}, changed: make(chan struct{}), waiting: map[string]int{}, holdings: map[string]*holding{}}
	if cfg.Ownership == nil {
		o.cfg.Ownership = alone{}
	}
	if cfg.Drafts != nil {
		o.drafts = newDrafts(cfg.Drafts, cfg.Log)
	}
	o.queues = keyed.New(maxConversations, o.deliver)
	return o
}

// Run sends what an earlier process left and everything that Push brings, until ctx ends.
func (o *Outbox) Run(ctx context.Context) error {
	if o.drafts != nil {
		if err := o.drafts.load(ctx); err != nil {
			return err
		}
	}
	var rows []mailbox.OutboxRow
	if !o.cfg.Ownership.Shared() { // otherwise they are loaded with their channels
		var err error
		if rows, err = o.cfg.Store.UnsentOutbox(ctx); err != nil {
			return fmt.Errorf("load outbox: %w", err)
		}
	}
	o.load(rows)
	return o.queues.Run(ctx)
}

// load queues the replies that an earlier process left, and then those that were pushed meanwhile. One of these may be among the first;
// it must neither overtake an older one nor be queued twice.
func (o *Outbox) load(rows []mailbox.OutboxRow) {
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

// Push queues a committed reply.
func (o *Outbox) Push(turn string, r message.Reply) {
	row := mailbox.OutboxRow{Turn: turn, Reply: r, State: mailbox.OutboxPending}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch in := o.holdings[r.Channel]; {
	case !o.loaded:
		o.early = append(o.early, row)
	case in != nil && !in.loaded:
		in.early = append(in.early, row)
	default:
		o.queue(row)
	}
}

// queue puts a reply into the queue of its conversation; o.mu is held.
func (o *Outbox) queue(r mailbox.OutboxRow) {
	in := o.holdings[r.Reply.Channel]
	if in != nil {
		if in.known[r.Reply.Key] {
			return
		}
		in.known[r.Reply.Key] = true
	}
	o.waiting[r.Reply.Channel]++
	o.queues.Push(string(r.Reply.ConversationKey()), queued{OutboxRow: r, in: in})
}

// Waiting counts the undelivered replies of each channel.
func (o *Outbox) Waiting() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.waiting)
}

// settled removes a reply from the count of Waiting.
func (o *Outbox) settled(r queued) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.in != nil {
		delete(r.in.known, r.Reply.Key)
	}
	if o.waiting[r.Reply.Channel]--; o.waiting[r.Reply.Channel] == 0 {
		delete(o.waiting, r.Reply.Channel)
	}
	if r.State == mailbox.OutboxDead {
		o.cfg.Events.Publish(Delivered{r.Reply.Channel, string(mailbox.OutboxDead)})
	}
}

// Attach makes s the sender of a channel instance until detach is called. If other hosts share the store, this one claims the channel if no
// other has it.
func (o *Outbox) Attach(channel string, s Sender) (detach func()) {
	o.set(channel, s)
	if o.cfg.Ownership.Shared() {
		o.queues.Push("channel "+channel, queued{attached: channel})
	}
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

// now returns the sender of a channel, or nil while there is none.
func (o *Outbox) now(channel string) Sender {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.senders[channel]
}

// yieldAfter is how long a host keeps a channel over which it cannot send, if others might.
const yieldAfter = 5 * time.Second

// sender waits for the sender of a channel. A channel that is not attached for long is left to other hosts.
func (o *Outbox) sender(ctx context.Context, channel string) (Sender, error) {
	var yield <-chan time.Time
	if o.cfg.Ownership.Shared() {
		tick := time.NewTicker(yieldAfter)
		defer tick.Stop()
		yield = tick.C
	}
	for {
		o.mu.Lock()
		s, changed := o.senders[channel], o.changed
		o.mu.Unlock()
		if s != nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-yield:
			if err := o.cfg.Ownership.Yield(ctx, store.ChannelOwner(channel)); err != nil && ctx.Err() == nil {
				o.cfg.Log.Error("cannot leave a channel to other hosts", "channel", channel, "error", err)
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// elsewhere reports whether a channel is left to other hosts, because this one has neither its key nor its sender.
func (o *Outbox) elsewhere(channel string) bool {
	return o.cfg.Ownership.Shared() && o.now(channel) == nil && !o.cfg.Ownership.Holds(store.ChannelOwner(channel))
}

// claim claims a channel that was attached, and takes up what is unsent.
func (o *Outbox) claim(ctx context.Context, channel string) (claimed bool) {
	if o.elsewhere(channel) {
		return true
	}
	_, done, err := o.cfg.Ownership.Enter(ctx, store.ChannelOwner(channel), func(ctx context.Context) error { return o.begin(ctx, channel) })
	if err == nil {
		done()
	}
	return err == nil || errors.Is(err, store.ErrOwned) || store.Settled(err)
}

// deliver sends the first reply of a conversation, and returns the others when it is settled.
func (o *Outbox) deliver(ctx context.Context, _ string, rows []queued) []queued {
	r := rows[0]
	switch {
	case r.attached != "":
		if o.claim(ctx, r.attached) {
			return rows[1:]
		}
		o.rest(ctx, r)
		return rows
	case o.elsewhere(r.Reply.Channel): // the host that has it finds the reply in the store
		o.settled(r)
		return rows[1:]
	}
	work, done, err := o.cfg.Ownership.Enter(ctx, store.ChannelOwner(r.Reply.Channel), func(ctx context.Context) error { return o.begin(ctx, r.Reply.Channel) })
	switch {
	case errors.Is(err, store.ErrOwned), store.Settled(err): // its owner finds it in the store
		o.settled(r)
		return rows[1:]
	case err != nil:
		if ctx.Err() == nil {
			o.cfg.Log.Error("cannot claim a channel; trying again", "channel", r.Reply.Channel, "error", err)
			o.rest(ctx, r)
		}
		return rows
	}
	defer done()
	if o.cfg.Ownership.Shared() && o.holding(r.Reply.Channel) != r.in { // it was loaded again
		o.settled(r)
		return rows[1:]
	}
	last, over := o.sendOne(work, r.OutboxRow)
	if !over && ctx.Err() != nil {
		return nil
	}
	o.settled(queued{OutboxRow: last, in: r.in})
	return rows[1:]
}

// rest waits before a channel is claimed again.
func (o *Outbox) rest(ctx context.Context, r queued) {
	d := delivery{Outbox: o, row: r.OutboxRow}
	d.pause(ctx, time.Second)
}

// sendOne sends a reply. It returns its last state, and whether it is settled; otherwise ctx has ended.
func (o *Outbox) sendOne(ctx context.Context, r mailbox.OutboxRow) (last mailbox.OutboxRow, over bool) {
	d := delivery{Outbox: o, row: r}
	for wait := left(d.row, o.cfg.Now()); ; {
		if d.pause(ctx, wait); ctx.Err() != nil {
			return d.row, false
		}
		var done bool
		var err error
		done, wait, err = d.attempt(ctx)
		switch {
		case store.Settled(err):
			d.logger().Error("outbox row was settled elsewhere", "error", err)
			return d.row, true
		case err != nil: // the host ends
			return d.row, false
		case done:
			if d.row.State == mailbox.OutboxDead {
				d.logger().Error("reply was not delivered", "note", d.row.Note, "attempts", d.row.Attempts)
			}
			return d.row, true
		}
	}
}

func (o *Outbox) holding(channel string) *holding {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.holdings[channel]
}

// begin begins a holding: it loads what is unsent over a channel that has become this host's.
func (o *Outbox) begin(ctx context.Context, channel string) error {
	o.mu.Lock()
	o.holdings[channel] = &holding{known: map[string]bool{}}
	o.mu.Unlock()
	if o.drafts != nil {
		if err := o.drafts.reload(ctx); err != nil {
			return err
		}
	}
	return o.TakeUp(ctx, channel)
}

// TakeUp queues the replies over a channel that are in the store, for example those that another host has written. It does nothing if another
// host has the channel.
func (o *Outbox) TakeUp(ctx context.Context, channel string) error {
	if o.holding(channel) == nil {
		return nil
	}
	rows, err := o.cfg.Store.UnsentOutbox(ctx)
	if err != nil {
		return fmt.Errorf("load the outbox: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range rows {
		if r.Reply.Channel == channel {
			o.queue(r)
		}
	}
	if in := o.holdings[channel]; in != nil {
		for _, r := range in.early {
			o.queue(r)
		}
		in.loaded, in.early = true, nil
	}
	return nil
}

// Look queues the unsent replies over channels that this host could claim, so that it does.
func (o *Outbox) Look(ctx context.Context, holds func(store.OwnerKey) bool) error {
	rows, err := o.cfg.Store.UnsentOutbox(ctx)
	if err != nil {
		return fmt.Errorf("load the outbox: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range rows {
		if !holds(store.ChannelOwner(r.Reply.Channel)) {
			o.queue(r)
		}
	}
	return nil
}

// Lost forgets what is in memory for a channel that another host has claimed.
func (o *Outbox) Lost(channel string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.holdings, channel)
}

// left returns the rest of the pause of a loaded row. The clock may have been set back since: a pause is never longer than when it
// began.
func left(r mailbox.OutboxRow, now time.Time) time.Duration {
	most := r.Pause
	if most == 0 { // written by an earlier version
		most = maxPause
	}
	return min(r.NextTry.Sub(now), most)
}

// after sets the pause before the next try. Only a later process looks at it; this one waits by its timer.
func (d *delivery) after(next *mailbox.OutboxRow, wait time.Duration) {
	next.NextTry, next.Pause, next.Note = d.cfg.Now().Add(wait).UTC(), wait, ""
}

// pause waits before the next try. A channel that was down and is back ends the pause, because its cause is probably over.
func (d *delivery) pause(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		d.mu.Lock()
		s, changed := d.senders[d.row.Reply.Channel], d.changed
		d.mu.Unlock()
		if d.row.Note == noteDown && s != nil && s != d.by {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// delivery is the delivery of one reply. row is the committed state: nothing is done before its state is committed, and no outcome
// is forgotten because it could not be committed at once.
type delivery struct {
	*Outbox
	row mailbox.OutboxRow
	// recognised is true if the channel would recognise a repetition of the current send.
	recognised bool
	resumed    int    // times that the current part stopped in the middle
	by         Sender // of the last attempt
	tries      int    // attempts by it
}

// logger names the reply. It is made only when there is something to log, which is rare.
func (d *delivery) logger() *slog.Logger {
	return d.cfg.Log.With("channel", d.row.Reply.Channel, "turn", d.row.Turn, "key", d.row.Reply.Key)
}

// save commits the next state of the row.
func (d *delivery) save(ctx context.Context, next mailbox.OutboxRow) error {
	return d.saveBy(ctx, next, d.cfg.Store.SetOutbox)
}

func (d *delivery) saveBy(ctx context.Context, next mailbox.OutboxRow, set func(context.Context, mailbox.OutboxRow) error) error {
	err := persist(ctx, d.cfg.Log, func(ctx context.Context) error { return set(ctx, next) })
	if err == nil {
		d.row = next
	}
	return err
}

// saveSent is like save for a delivered reply. If the channel would recognise a repetition, losing this write does no harm, so it need
// not wait for the disk.
func (d *delivery) saveSent(ctx context.Context, next mailbox.OutboxRow) error {
	if by, ok := d.cfg.Store.(mailbox.Settler); ok && d.recognised {
		return d.saveBy(ctx, next, by.SettleOutbox)
	}
	return d.save(ctx, next)
}

// attempt makes one attempt and commits its outcome. A crash between its two commits leaves the row in state Sending, which means "may
// have been sent".
func (d *delivery) attempt(ctx context.Context) (done bool, wait time.Duration, err error) {
	s, err := d.sender(ctx, d.row.Reply.Channel)
	if err == nil {
		err = d.cfg.Ownership.Begin(ctx) // before a draft is completed or an earlier message amended; send asks again
	}
	if err != nil {
		return false, 0, err
	}
	if d.row.Reply.Amends != "" {
		return d.amend(ctx, s)
	}
	draft, drafter, err := d.draft(ctx, s)
	if err != nil {
		return false, 0, err
	}
	if err := d.prepare(ctx, s, drafter != nil); err != nil {
		return false, 0, err
	}
	if drafter != nil {
		return d.finish(ctx, s, draft, drafter)
	}
	next := d.row
	if next.State == mailbox.OutboxSending && !s.Capabilities().Idempotent {
		if settled, err := d.settle(ctx, s, &next); settled || err != nil {
			return settled, 0, err
		}
	}
	reply, later, err := d.upload(ctx, s, due(next))
	if err != nil {
		return false, 0, err
	}
	if later {
		return false, d.row.Pause, nil
	}
	next.Attempts++
	if s != d.by {
		d.by, d.tries = s, 0
	}
	d.tries++
	if !s.Capabilities().Idempotent {
		next.State, next.Note = mailbox.OutboxSending, ""
		if err := d.save(ctx, next); err != nil {
			return false, 0, err
		}
	}
	d.recognised = s.Capabilities().Idempotent
	// A send that has started is completed, so that its outcome is known.
	res := d.send(context.WithoutCancel(ctx), s, reply)
	d.cfg.Events.Publish(Delivered{next.Reply.Channel, string(res.Outcome)})
	return d.record(ctx, next, res)
}

// rested returns when no call of a previous owner of the channel can be under way.
func (d *delivery) rested(ctx context.Context) error {
	over := time.NewTimer(d.cfg.Ownership.Rest(ctx))
	defer over.Stop()
	select {
	case <-over.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle handles a row whose send may have happened: the channel knows, or it is sent again with a mark, or it is given up.
func (d *delivery) settle(ctx context.Context, s Sender, next *mailbox.OutboxRow) (bool, error) {
	r, ok := reconciler(s)
	if ok { // "not there" means nothing while it may be under way
		if err := d.rested(ctx); err != nil {
			return false, err
		}
	}
	// A channel may send files as separate messages: then its answer would be about the first of several.
	if ok && next.Reply.Resume == "" && len(due(*next).Attachments) == 0 {
		ask, cancel := context.WithTimeout(ctx, d.cfg.SendTimeout)
		defer cancel()
		res, err := r.Reconcile(ask, due(*next))
		if err == nil && res.Arrived() {
			done, _, err := d.record(ctx, *next, res)
			return done, err
		}
		if err == nil && res.Outcome == message.NotSent {
			return false, nil
		}
	}
	if next.Reply.PossibleDuplicate && (next.Note == noteUnknown || next.Attempts >= maxResends) {
		next.State, next.Note = mailbox.OutboxDead, "outcome unknown twice"
		return true, d.save(ctx, *next)
	}
	next.Reply.PossibleDuplicate = true
	return false, nil
}

// noteDown is the note of a reply that was not sent because the channel could not, such as one that is not connected.
const noteDown = string(message.NotSent)

// noteUnknown distinguishes a send whose outcome the channel does not know from one that the end of the host cut off. The first is
// given up when it happens to a marked resend, because the channel will not know the next time either. The second says nothing about the
// channel: a loss would be worse than another copy with a mark.
const noteUnknown = string(message.Unknown)

// maxResends bounds the latter, in case this very send crashes the host.
const maxResends = 10

func (o *Outbox) send(ctx context.Context, s Sender, r message.Reply) message.Delivery {
	if err := o.cfg.Ownership.Begin(ctx); err != nil {
		o.cfg.Log.Warn("a reply is not sent, because another host has its channel", "channel", r.Channel, "error", err)
		return message.Delivery{Outcome: message.NotSent}
	}
	ctx, cancel := context.WithTimeout(ctx, o.cfg.SendTimeout+time.Duration(len(r.Attachments))*time.Minute)
	defer cancel()
	res, err := s.Send(ctx, r)
	res.Outcome = cmp.Or(res.Outcome, message.Unknown)
	if err != nil {
		o.cfg.Log.Warn("delivery", "channel", r.Channel, "outcome", res.Outcome, "error", err)
	}
	return res
}

// record commits an outcome. It reports whether the row is settled, and otherwise when to try again.
func (d *delivery) record(ctx context.Context, next mailbox.OutboxRow, res message.Delivery) (done bool, wait time.Duration, err error) {
	pause := pauseAfter
	if d.stopped(res) { // the rest counts as a new message: attempts of its beginning do not count
		next.PlatformIDs, next.Reply.Resume = append(slices.Clip(next.PlatformIDs), res.PlatformIDs...), res.Resume
		next.Attempts, next.Reply.PossibleDuplicate = 0, false
		pause = func(int) time.Duration { return 0 }
	}
	switch res.Outcome {
	case message.Sent, message.Duplicate:
		next.PlatformIDs, next.Note = append(slices.Clip(next.PlatformIDs), res.PlatformIDs...), string(res.Outcome)
		next.Reply.Resume, d.resumed = "", 0
		if next.Part++; next.Part < len(next.Parts) {
			next.State, next.Attempts, next.NextTry, next.Pause, next.Reply.PossibleDuplicate = mailbox.OutboxPending, 0, time.Time{}, 0, false
			return false, 0, d.save(ctx, next)
		}
		next.State = mailbox.OutboxSent
		return true, 0, d.saveSent(ctx, next)
	case message.Refused: // the replies behind it need not wait
		next.State, next.Note = mailbox.OutboxDead, "the channel refused it for good"
		return true, 0, d.save(ctx, next)
	case message.NotSent:
		next.State, wait = mailbox.OutboxPending, max(res.RetryAfter, pause(d.tries))
	default:
		next.State, wait = mailbox.OutboxSending, pauseAfter(next.Attempts)
	}
	if next.Attempts >= maxAttempts {
		next.State, next.Note = mailbox.OutboxDead, fmt.Sprintf("gave up after %d attempts", next.Attempts)
		return true, 0, d.save(ctx, next)
	}
	d.after(&next, wait)
	switch {
	case next.State == mailbox.OutboxSending:
		next.Note = noteUnknown
	case res.RetryAfter == 0:
		next.Note = noteDown
	}
	return false, wait, d.save(ctx, next)
}

// stopped reports whether a send stopped in the middle, beyond the previous stop. A channel may do so maxResumed times.
func (d *delivery) stopped(res message.Delivery) bool {
	if res.Resume == "" || res.Resume == d.row.Reply.Resume || res.Outcome != message.NotSent && res.Outcome != message.Unknown {
		return false
	}
	d.resumed++
	return d.resumed <= maxResumed
}

// maxResumed bounds the stops of one message: 10,000 lines, one at a time.
const maxResumed = 10_000

// maxAttempts bounds the attempts of one reply; with the back-off they take about a day.
const maxAttempts = 300

// maxPause is the longest pause between attempts that the channel did not ask for.
const maxPause = 5 * time.Minute

// pauseAfter returns the wait after attempt n.
func pauseAfter(n int) time.Duration { return backoff.Delay(n, 500*time.Millisecond, maxPause) }
