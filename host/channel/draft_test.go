package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
)

// canvas is a channel with edit, delete and typing that keeps what people see.
type canvas struct {
	can        message.Capabilities
	recognises bool
	refuse     []any           // what the next calls of Send and Edit answer instead: message.Delivery, message.Revised or error; nil lets one pass
	lost       bool            // a send that is refused with an error was shown all the same
	delays     []time.Duration // of the next calls

	mu     sync.Mutex
	order  []string          // ids of messages
	shows  map[string]string // text by id
	finals map[string]int
	log    []string // calls, with the second since the begin
	keys   map[string]string
	began  time.Time
	typing []string
}

func newCanvas(recognises bool) *canvas {
	return &canvas{
		recognises: recognises, shows: map[string]string{}, finals: map[string]int{}, keys: map[string]string{}, began: time.Now(),
		can: message.Capabilities{Edit: true, Delete: true, MinEditInterval: time.Second, MaxTextRunes: 100},
	}
}

func (c *canvas) Capabilities() message.Capabilities {
	can := c.can
	can.Idempotent = c.recognises
	return can
}

// call writes down a call and returns what it is to answer instead of its work.
func (c *canvas) call(format string, args ...any) any {
	time.Sleep(c.delay())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, fmt.Sprintf("%.1f ", time.Since(c.began).Seconds())+fmt.Sprintf(format, args...))
	if len(c.refuse) == 0 {
		return nil
	}
	a := c.refuse[0]
	c.refuse = c.refuse[1:]
	return a
}

func (c *canvas) delay() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.delays) == 0 {
		return 0
	}
	d := c.delays[0]
	c.delays = c.delays[1:]
	return d
}

func (c *canvas) put(key, text string) message.Delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, known := c.keys[key]; known && c.recognises {
		return message.Delivery{Outcome: message.Duplicate, PlatformIDs: []string{id}}
	}
	id := fmt.Sprint("m", len(c.order)+1)
	c.keys[key] = id
	c.order, c.shows[id] = append(c.order, id), text
	return message.Delivery{Outcome: message.Sent, PlatformIDs: []string{id}}
}

func (c *canvas) send(what string, r message.Reply) (message.Delivery, error) {
	text := r.Text
	if r.PossibleDuplicate {
		text = "(again?) " + text
	}
	switch a := c.call("%s %q", what, text).(type) {
	case message.Delivery:
		return a, nil
	case error:
		if c.lost {
			c.put(r.Key, text)
		}
		return message.Delivery{}, a
	}
	return c.put(r.Key, text), nil
}

func (c *canvas) Send(_ context.Context, r message.Reply) (message.Delivery, error) {
	return c.send("send", r)
}
func (c *canvas) SendDraft(_ context.Context, r message.Reply) (message.Delivery, error) {
	return c.send("draft", r)
}

func (c *canvas) Edit(_ context.Context, e message.Revision) (message.Revised, error) {
	what := "edit"
	if e.Final {
		what = "final"
	}
	switch a := c.call("%s %q", what, e.Text).(type) {
	case message.Revised:
		return a, nil
	case error:
		return message.Revised{}, a
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.shows[e.MessageID]; !there {
		return message.Revised{Never: true}, errors.New("no such message")
	}
	c.shows[e.MessageID] = e.Text
	if e.Final {
		c.finals[e.MessageID]++
	}
	return message.Revised{Applied: true}, nil
}

func (c *canvas) Delete(_ context.Context, _ message.Conversation, id string) error {
	if err, _ := c.call("delete %s", id).(error); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.shows, id)
	return nil
}

func (c *canvas) Typing(_ context.Context, _ message.Conversation, on bool, _ time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.typing = append(c.typing, fmt.Sprintf("%.1f %v", time.Since(c.began).Seconds(), on))
	return nil
}

// seen is what people see in the end, message by message.
func (c *canvas) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, id := range c.order {
		if text, there := c.shows[id]; there {
			out = append(out, text)
		}
	}
	return out
}

func (c *canvas) calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.log)
}

// album is a canvas that can look up what it was sent.
type album struct{ *canvas }

func (a album) Capabilities() message.Capabilities {
	can := a.canvas.Capabilities()
	can.Reconcile = true
	return can
}

func (a album) Reconcile(_ context.Context, r message.Reply) (message.Delivery, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id, known := a.keys[r.Key]; known {
		return message.Delivery{Outcome: message.Sent, PlatformIDs: []string{id}}, nil
	}
	return message.Delivery{Outcome: message.NotSent}, nil
}

// shelf is a table of drafts in memory.
type shelf struct {
	mu     sync.Mutex
	drafts map[int64]mailbox.Draft
	after  func(d mailbox.Draft) // is called with each draft that was put
}

func newShelf(ds ...mailbox.Draft) *shelf {
	s := &shelf{drafts: map[int64]mailbox.Draft{}}
	for _, d := range ds {
		s.drafts[d.Inbox] = d
	}
	return s
}

func (s *shelf) PutDraft(_ context.Context, d mailbox.Draft) error {
	s.mu.Lock()
	s.drafts[d.Inbox] = d
	s.mu.Unlock()
	if s.after != nil {
		s.after(d)
	}
	return nil
}

func (s *shelf) DropDraft(_ context.Context, inbox int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.drafts, inbox)
	return nil
}

func (s *shelf) OpenDrafts(context.Context) ([]mailbox.Draft, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []mailbox.Draft
	for _, d := range s.drafts {
		out = append(out, d)
	}
	return out, nil
}

func (s *shelf) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.drafts)
}

// liveOutbox is an outbox with its live views.
type liveOutbox struct {
	*Outbox
	live *Live
	rows *memory // where answers are committed
	stop func()
}

func newLiveOutbox(t *testing.T, rows mailbox.Outbox, drafts mailbox.Drafts, s Sender) *liveOutbox {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	d := &liveOutbox{Outbox: NewOutbox(OutboxConfig{Store: rows, Drafts: drafts, Log: log})}
	d.live = NewLive(LiveConfig{Outbox: d.Outbox, Stream: func(c string) bool { return c == "irc" }, Log: log})
	d.Attach("irc", s)
	var work sync.WaitGroup
	work.Go(func() { d.Run(ctx) })
	work.Go(func() { d.live.Run(ctx) })
	synctest.Wait()
	d.stop = func() { cancel(); work.Wait() }
	return d
}

// answer ends a turn as the runner does.
func (d *liveOutbox) answer(v *View, r message.Reply, text string) {
	r.Text = text
	d.rows.SetOutbox(context.Background(), mailbox.OutboxRow{Reply: r, State: mailbox.OutboxPending})
	d.Push("t", r)
	if v != nil {
		v.Over()
	}
}

var answerTo = message.Reply{Key: "t/0", Answers: 7, Channel: "irc", Conversation: message.Conversation{ID: "#a"}, ReplyTo: "1"}

func delta(text string) message.Event { return message.Event{Kind: message.TextDelta, Text: text} }

// TestStream plays whole turns on a channel with edit. The clock is a fake one.
func TestStream(t *testing.T) {
	say := func(after time.Duration, events ...message.Event) func(*View) {
		return func(v *View) {
			time.Sleep(after)
			for _, e := range events {
				if v != nil {
					v.Event(e)
				}
			}
		}
	}
	long := strings.Repeat("0123456789", 12)
	for _, c := range []struct {
		name   string
		refuse []any
		change func(*canvas)
		turn   []func(*View)
		text   string
		calls  []string
		seen   []string
	}{
		{"an answer that is ready within a second needs no draft", nil, nil,
			[]func(*View){say(100*time.Millisecond, delta("hel")), say(800*time.Millisecond, delta("lo"))}, "hello",
			[]string{`0.9 send "hello"`}, []string{"hello"}},
		{"a long turn without text needs none", nil, nil, []func(*View){say(5 * time.Second)}, "hello",
			[]string{`5.0 send "hello"`}, []string{"hello"}},
		{"draft, edits that are held together, last edit", nil, nil,
			[]func(*View){
				say(500*time.Millisecond, delta("one")), say(time.Second, delta(" two")), say(100*time.Millisecond, delta(" three")),
				say(time.Second, delta(" four")),
			}, "one two three four.",
			[]string{`1.0 draft "one"`, `2.0 edit "one two three"`, `2.6 final "one two three four."`}, []string{"one two three four."}},
		{"text after a second is shown at once", nil, nil, []func(*View){say(3*time.Second, delta("now")), say(0)}, "now",
			[]string{`3.0 draft "now"`, `3.0 final "now"`}, []string{"now"}},
		{"a reset rewrites the draft", nil, nil,
			[]func(*View){say(time.Second, delta("wrong")), say(time.Second, message.Event{Kind: message.TextReset}, delta("right")), say(time.Second)},
			"right", []string{`1.0 draft "wrong"`, `2.0 edit "right"`, `3.0 final "right"`}, []string{"right"}},
		{"the text after a tool call takes the place of the one before", nil, nil,
			[]func(*View){
				say(time.Second, delta("let me look")), say(2*time.Second, message.Event{Kind: message.ToolCall}),
				say(time.Second, delta("it is")), say(2 * time.Second),
			}, "it is 5", []string{`1.0 draft "let me look"`, `4.0 edit "it is"`, `6.0 final "it is 5"`}, []string{"it is 5"}},
		{"a draft shows what fits one message, the rest follows", nil, nil,
			[]func(*View){say(time.Second, delta(long[:50])), say(2*time.Second, delta(long[50:110])), say(3*time.Second, delta(long[110:])), say(3 * time.Second)},
			long, []string{`1.0 draft "` + long[:50] + `"`, `3.0 edit "` + long[:100] + `"`, `9.0 final "` + long[:100] + `"`, `9.0 send "` + long[100:] + `"`},
			[]string{long[:100], long[100:]}},
		{"retry_after of an edit is obeyed to the last edit", []any{nil, message.Revised{RetryAfter: 5 * time.Second}, nil, message.Revised{RetryAfter: 7 * time.Second}}, nil,
			[]func(*View){say(time.Second, delta("a")), say(time.Second, delta("b")), say(time.Second, delta("c")), say(5 * time.Second)}, "abc.",
			[]string{`1.0 draft "a"`, `2.0 edit "ab"`, `7.0 edit "abc"`, `8.0 final "abc."`, `15.0 final "abc."`}, []string{"abc."}},
		{"retry_after of the draft is obeyed", []any{message.Delivery{Outcome: message.NotSent, RetryAfter: 4 * time.Second}}, nil,
			[]func(*View){say(time.Second, delta("a")), say(6 * time.Second)}, "a",
			[]string{`1.0 draft "a"`, `5.0 draft "a"`, `7.0 final "a"`}, []string{"a"}},
		{"a channel without edit gets the answer alone", nil, func(c *canvas) { c.can.Edit = false },
			[]func(*View){say(2*time.Second, delta("a")), say(2 * time.Second)}, "a", []string{`4.0 send "a"`}, []string{"a"}},
		{"what can never be edited is removed and sent anew", []any{nil, message.Revised{Never: true}}, nil,
			[]func(*View){say(2*time.Second, delta("a"))}, "ab",
			[]string{`2.0 draft "a"`, `2.0 final "ab"`, `2.0 delete m1`, `2.0 send "ab"`}, []string{"ab"}},
		{"or left where it cannot be removed", []any{nil, message.Revised{Never: true}}, func(c *canvas) { c.can.Delete = false },
			[]func(*View){say(2*time.Second, delta("a"))}, "ab", []string{`2.0 draft "a"`, `2.0 final "ab"`, `2.0 send "ab"`}, []string{"a", "ab"}},
		{"a stale edit that nobody has made is a failure", []any{nil, message.Revised{Stale: true}}, nil,
			[]func(*View){say(2*time.Second, delta("a"))}, "ab",
			[]string{`2.0 draft "a"`, `2.0 final "ab"`, `2.0 delete m1`, `2.0 send "ab"`}, []string{"ab"}},
		{"past the edit window the draft is replaced", nil, func(c *canvas) { c.can.EditWindow = time.Minute },
			[]func(*View){say(2*time.Second, delta("a")), say(2 * time.Minute)}, "ab",
			[]string{`2.0 draft "a"`, `122.0 delete m1`, `122.0 send "ab"`}, []string{"ab"}},
		{"a draft that fell into pieces is taken away", []any{message.Delivery{Outcome: message.Sent, PlatformIDs: []string{"x", "y"}}}, nil,
			[]func(*View){say(2*time.Second, delta("a"))}, "ab",
			[]string{`2.0 draft "a"`, `2.0 delete x`, `2.0 delete y`, `2.0 send "ab"`}, []string{"ab"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pad := newCanvas(false)
				pad.refuse = c.refuse
				if c.change != nil {
					c.change(pad)
				}
				shelf := newShelf()
				rows := newMemory()
				d := newLiveOutbox(t, rows, shelf, pad)
				d.rows = rows
				v := d.live.Show(answerTo)
				for _, step := range c.turn {
					step(v)
					synctest.Wait()
				}
				d.answer(v, answerTo, c.text)
				time.Sleep(time.Hour)
				synctest.Wait()
				d.stop()
				if got := pad.calls(); !slices.Equal(got, c.calls) {
					t.Errorf("calls:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.calls, "\n"))
				}
				if got := pad.seen(); !slices.Equal(got, c.seen) {
					t.Errorf("people see %q, want %q", got, c.seen)
				}
				if r := d.rows.rows["t/0"]; r.State != mailbox.OutboxSent || shelf.len() != 0 {
					t.Errorf("row %+v, %d drafts are left", r, shelf.len())
				}
			})
		})
	}
}
