package channel

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// LiveConfig configures a Live.
type LiveConfig struct {
	Outbox *Outbox
	// Stream reports whether answers on a channel are shown while they are written, if the channel can.
	Stream func(channel string) bool
	Log    *slog.Logger
}

// Live shows running turns to the people who wait for them: a typing notice and, on channels that can edit, the answer so far. It commits
// nothing but the drafts that it sends, and a turn never waits for it.
type Live struct {
	cfg LiveConfig

	mu   sync.Mutex
	ctx  context.Context // nil before Run and after it
	work sync.WaitGroup
}

// NewLive returns a Live.
func NewLive(cfg LiveConfig) *Live { return &Live{cfg: cfg} }

// Run lets views work until ctx ends, and returns when the last one has ended.
func (l *Live) Run(ctx context.Context) error {
	l.mu.Lock()
	l.ctx = ctx
	l.mu.Unlock()
	<-ctx.Done()
	l.mu.Lock()
	l.ctx = nil
	l.mu.Unlock()
	l.work.Wait()
	return nil
}

// Show starts the view of a turn, given the reply that will end it. It returns nil, at little cost, if there is nothing to show.
func (l *Live) Show(r message.Reply) *View {
	s := l.cfg.Outbox.now(r.Channel)
	if s == nil {
		return nil
	}
	can := s.Capabilities()
	stream := can.Edit && r.Answers != 0 && l.cfg.Outbox.drafts != nil && l.cfg.Stream(r.Channel)
	if !stream && !can.Typing {
		return nil
	}
	v := &view{
		live: l, reply: r, can: can, wake: make(chan struct{}, 1), moved: make(chan struct{}, 1), quit: make(chan struct{}),
		streamed: make(chan struct{}),
	}
	if !l.start(v, stream) {
		return nil
	}
	return &View{v}
}

// start starts a goroutine for each thing that a view shows, so that a slow call for one does not delay the other. They end with the view,
// or with Run.
func (l *Live) start(v *view, stream bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx := l.ctx
	if ctx == nil || ctx.Err() != nil {
		return false
	}
	if stream {
		drafts := l.cfg.Outbox.drafts
		drafts.watch(v.reply.Answers, v)
		l.work.Go(func() {
			defer drafts.unwatch(v.reply.Answers, v)
			defer close(v.streamed)
			v.stream(ctx, drafts)
		})
	}
	if v.can.Typing {
		l.work.Go(func() { v.showTyping(ctx) })
	}
	return true
}

// View shows a turn.
type View struct{ v *view }

// Event shows an event of the turn. It does not block.
func (w *View) Event(e message.Event) { w.v.event(e) }

// Over ends the view.
func (w *View) Over() { w.v.end() }

// view is the state of a View.
type view struct {
	live  *Live
	reply message.Reply // that will end the turn; its text is not known yet
	can   message.Capabilities

	wake     chan struct{} // capacity 1: the text has changed
	moved    chan struct{} // capacity 1: waiting has changed
	quit     chan struct{} // closed when the view is to end
	once     sync.Once     // of quit
	streamed chan struct{} // closed after the last call about the draft

	mu      sync.Mutex
	text    []byte
	stale   bool // the next delta starts another text
	waiting bool // for a person
}

// maxShown bounds the kept text, in bytes; channels show less in one message.
const maxShown = 128 << 10

func (v *view) end() { v.once.Do(func() { close(v.quit) }) }

func (v *view) event(e message.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e.Kind {
	case message.TextReset:
		v.text, v.stale = append(v.text[:0], e.Text...), false
		signal(v.wake)
	case message.TextDelta:
		if v.stale {
			v.text, v.stale = v.text[:0], false
		}
		if len(v.text) < maxShown {
			v.text = append(v.text, e.Text...)
		}
		signal(v.wake)
	case message.ToolCall:
		v.stale = true
	}
	if waiting := e.Kind == message.ToolApproval; waiting != v.waiting {
		v.waiting = waiting
		signal(v.moved)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (v *view) awaitsPerson() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.waiting
}

// rest waits for d, and reports whether the view continues.
func (v *view) rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-v.quit:
	case <-ctx.Done():
	}
	return false
}

// until waits for c, and reports whether the view continues.
func (v *view) until(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-v.quit:
	case <-ctx.Done():
	}
	return false
}

// A typing notice is sent when a turn has taken typingDelay, for typingTTL, and again every typingEvery.
const (
	typingDelay = 300 * time.Millisecond
	typingTTL   = 5 * time.Second
	typingEvery = 4 * time.Second
)

// showTyping keeps a typing notice up while the turn does not wait for a person.
func (v *view) showTyping(ctx context.Context) {
	on := false
	defer func() {
		if on {
			v.setTyping(ctx, false)
		}
	}()
	for going := v.rest(ctx, typingDelay); going; {
		if want := !v.awaitsPerson(); want || on {
			v.setTyping(ctx, want)
			on = want
		}
		every := time.NewTimer(typingEvery)
		select {
		case <-every.C:
		case <-v.moved:
		case <-v.quit:
			going = false
		case <-ctx.Done():
			going = false
		}
		every.Stop()
	}
}

// setTyping sends a typing notice. Errors do not matter.
func (v *view) setTyping(ctx context.Context, on bool) {
	s, ok := v.live.cfg.Outbox.now(v.reply.Channel).(Typist)
	if !ok {
		return
	}
	if err := s.Typing(ctx, v.reply.Conversation, on, typingTTL); err != nil && ctx.Err() == nil {
		v.live.cfg.Log.Debug("cannot show typing", "channel", v.reply.Channel, "error", err)
	}
}

// draftDelay is how long a turn runs before a draft is sent: an answer that is ready by then needs none.
const draftDelay = time.Second

// maxEditFailures ends a view after that many failed edits in a row; the reply is delivered all the same.
const maxEditFailures = 5

// stream sends the text as a draft, and keeps the draft up to date.
func (v *view) stream(ctx context.Context, b *drafts) {
	if !v.rest(ctx, draftDelay) || !v.until(ctx, b.loaded) {
		return
	}
	w := &writing{view: v, drafts: b}
	w.draft, w.begun = b.get(v.reply.Answers)
	for !w.over {
		if wait := time.Until(w.next); wait > 0 && !v.rest(ctx, wait) {
			return
		}
		text, full := v.first()
		if text != "" && text != w.shown {
			w.show(ctx, text)
			continue
		}
		if full {
			w.later(0) // the text is not split again for each new word
		}
		if !v.until(ctx, v.wake) {
			return
		}
	}
}

// first returns the part of the text that fits one message, and whether there is more. The rest comes with the reply.
func (v *view) first() (text string, full bool) {
	v.mu.Lock()
	text = string(v.text)
	v.mu.Unlock()
	parts := split(text, v.can.MaxTextRunes)
	return parts[0], len(parts) > 1
}

// writing is an unfinished draft.
type writing struct {
	*view
	drafts   *drafts
	draft    mailbox.Draft
	begun    bool // the store has the draft
	shown    string
	next     time.Time // of the next call to the channel, at the earliest
	revision uint64
	failures int
	over     bool // the draft is not updated any more
}

// show sends the draft or edits it.
func (w *writing) show(ctx context.Context, text string) {
	if w.live.cfg.Outbox.cfg.Ownership.Begin(ctx) != nil { // what is begun later could come after the answer of the next host
		w.over = true
		return
	}
	s := w.live.cfg.Outbox.now(w.reply.Channel)
	to, ok := s.(Drafter) // the instance could edit when the turn began, but s may be nil now
	switch {
	case !ok: // the plugin is being restarted
		w.later(time.Second)
	case w.draft.MessageID != "":
		w.edit(ctx, to, text)
	case w.begun:
		w.recover(ctx, s, text)
	default:
		w.send(ctx, s, to, text)
	}
}

func (w *writing) later(d time.Duration) { w.next = time.Now().Add(max(d, w.can.MinEditInterval)) }

// recover finds a draft that an earlier process may have sent.
func (w *writing) recover(ctx context.Context, s Sender, text string) {
	r := w.reply
	r.Text = text
	d, found := w.drafts.find(ctx, s, w.draft, r)
	if !found {
		w.over = true
		return
	}
	w.keep(ctx, d)
	w.later(0)
}

// send sends the draft. It is stored before, and its platform id is stored before the first edit.
func (w *writing) send(ctx context.Context, s Sender, to Drafter, text string) {
	d := mailbox.Draft{Inbox: w.reply.Answers, Key: draftKey(w.reply.Key), SentAt: time.Now().UTC()}
	if err := w.drafts.put(ctx, d); err != nil {
		w.live.cfg.Log.Warn("cannot store a draft, so none is sent", "channel", w.reply.Channel, "error", err)
		w.over = true
		return
	}
	r := w.reply
	r.Key, r.Text = d.Key, text
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), draftTimeout)
	res, err := to.SendDraft(call, r)
	cancel()
	if err != nil {
		w.live.cfg.Log.Warn("delivery of a draft", "channel", w.reply.Channel, "outcome", res.Outcome, "error", err)
	}
	delivered := res.Arrived()
	switch {
	case delivered && len(res.PlatformIDs) == 1:
		d.MessageID = res.PlatformIDs[0]
		w.keep(ctx, d)
		w.shown = text
		w.later(0)
	case delivered: // edits cannot complete it
		w.discard(ctx, to, res.PlatformIDs)
	case res.Outcome == message.NotSent, res.Outcome == message.Refused:
		w.over = res.Outcome == message.Refused
		w.fail(ctx, res.RetryAfter)
	default:
		w.draft, w.begun = d, true
		if w.over = !s.Capabilities().Idempotent; !w.over {
			w.later(pauseAfter(1)) // the same key again
		}
	}
}

// keep commits a draft with its id.
func (w *writing) keep(ctx context.Context, d mailbox.Draft) {
	if err := persist(ctx, w.live.cfg.Log, func(ctx context.Context) error { return w.drafts.put(ctx, d) }); err != nil {
		w.over = true
		return
	}
	w.draft, w.begun = d, true
}

// discard removes a draft that became several messages, or one without an id.
func (w *writing) discard(ctx context.Context, to Drafter, ids []string) {
	w.over = true
	for _, id := range ids {
		if w.can.Delete {
			call, cancel := context.WithTimeout(context.WithoutCancel(ctx), draftTimeout)
			if err := to.Delete(call, w.reply.Conversation, id); err != nil {
				w.live.cfg.Log.Debug("cannot remove a draft", "channel", w.reply.Channel, "error", err)
			}
			cancel()
		}
	}
	w.forget(ctx)
}

// fail forgets a draft that was not sent, and waits as long as the channel asks.
func (w *writing) fail(ctx context.Context, wait time.Duration) {
	w.forget(ctx)
	w.failures++
	w.over = w.over || w.failures >= maxEditFailures
	w.later(max(wait, pauseAfter(w.failures)))
}

func (w *writing) forget(ctx context.Context) {
	if err := w.drafts.forget(ctx, w.reply.Answers); err != nil {
		w.over = true
	}
}

// edit updates the draft.
func (w *writing) edit(ctx context.Context, to Drafter, text string) {
	w.revision = revision(time.Now(), w.revision)
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), draftTimeout)
	e, err := to.Edit(call, message.Revision{Conversation: w.reply.Conversation, MessageID: w.draft.MessageID, Number: w.revision, Text: text})
	cancel()
	switch {
	case e.Applied:
		w.shown, w.failures = text, 0
		w.later(0)
	case e.RetryAfter > 0:
		w.later(e.RetryAfter)
	default:
		w.live.cfg.Log.Debug("cannot update a draft", "channel", w.reply.Channel, "error", err)
		w.failures++
		w.over = e.Never || e.Stale || w.failures >= maxEditFailures
		w.later(pauseAfter(w.failures))
	}
}
