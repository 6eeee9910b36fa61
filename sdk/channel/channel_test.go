package channel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a channel made of functions; nil ones do what a good plugin does.
type fake struct {
	configure func(channel.Config) error
	run       func(context.Context, channel.Inbox) error
	send      func(context.Context, channel.Send) (channel.Sent, error)
	sends     atomic.Int32
}

func (f *fake) Describe() channel.Description {
	return channel.Description{Name: "fake", Version: "1.0.0"}
}

func (f *fake) Configure(_ context.Context, c channel.Config) error {
	if f.configure == nil {
		return nil
	}
	return f.configure(c)
}

func (f *fake) Run(ctx context.Context, in channel.Inbox) error {
	if f.run == nil {
		<-ctx.Done()
		return nil
	}
	return f.run(ctx, in)
}

func (f *fake) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	n := f.sends.Add(1)
	if f.send == nil {
		return channel.Sent{MessageIDs: []string{fmt.Sprint("m", n)}}, nil
	}
	return f.send(ctx, s)
}

// rich also has every optional ability.
type rich struct{ fake }

func (*rich) Edit(_ context.Context, e channel.Edit) (channel.Edited, error) {
	if e.Text == "slow down" {
		return channel.Edited{RetryAfter: time.Second}, nil
	}
	return channel.Edited{}, nil
}
func (*rich) Typing(context.Context, channel.Typing) error               { return nil }
func (*rich) Delete(context.Context, channel.Conversation, string) error { return nil }
func (*rich) React(context.Context, channel.Reaction) error              { return nil }
func (*rich) Resolve(context.Context, string) ([]channel.Target, error)  { return nil, nil }
func (*rich) Upload(context.Context, channel.Media) (string, error)      { return "h", nil }
func (*rich) Reconcile(_ context.Context, r channel.Reconcile) (channel.Sent, error) {
	return channel.Sent{Outcome: channel.OutcomeNotSent}, nil
}
func (*rich) Fetch(_ context.Context, handle string) (channel.Media, error) {
	return channel.Media{Body: io.NopCloser(strings.NewReader(strings.Repeat(handle, 300<<10)))}, nil
}

var (
	_ channel.Editor     = (*rich)(nil)
	_ channel.Typer      = (*rich)(nil)
	_ channel.Deleter    = (*rich)(nil)
	_ channel.Reacter    = (*rich)(nil)
	_ channel.Resolver   = (*rich)(nil)
	_ channel.Uploader   = (*rich)(nil)
	_ channel.Reconciler = (*rich)(nil)
	_ channel.Fetcher    = (*rich)(nil)
)

func numbered(i int) channel.Event {
	return channel.Event{
		ID: fmt.Sprint("e", i), Text: fmt.Sprint("text ", i), Addressed: true,
		Conversation: channel.Conversation{ID: "c1", Kind: channel.DM},
		Sender:       channel.Sender{ID: "u1", Name: "Ann"},
	}
}

// deliver hands over n events one after the other and reports each result.
func deliver(n int, results chan<- error) func(context.Context, channel.Inbox) error {
	return func(ctx context.Context, in channel.Inbox) error {
		for i := range n {
			results <- in.Deliver(ctx, numbered(i))
		}
		<-ctx.Done()
		return nil
	}
}

// pipeline hands over n events without waiting for acks, noting which were acked.
func pipeline(n int, acked chan<- string) func(context.Context, channel.Inbox) error {
	return func(ctx context.Context, in channel.Inbox) error {
		for i := range n {
			e := numbered(i)
			err := in.DeliverAsync(ctx, e, func(err error) {
				if err == nil {
					acked <- e.ID
				}
			})
			if err != nil {
				break
			}
		}
		<-ctx.Done()
		return nil
	}
}

func TestDeliverReturnsAfterAck(t *testing.T) {
	results := make(chan error, 1)
	h := plugintest.Start(t, &fake{run: deliver(1, results)}, plugintest.Config{})
	if diff := cmp.Diff(numbered(0), h.Event()); diff != "" {
		t.Errorf("event changed on its way (-want +got):\n%s", diff)
	}
	select {
	case err := <-results:
		t.Fatalf("deliver returned %v before the ack", err)
	default:
	}
	h.Ack()
	if err := <-results; err != nil {
		t.Errorf("deliver after the ack: %v", err)
	}
}

func TestUnackedEventsComeAgain(t *testing.T) {
	acked := make(chan string, 10)
	h := plugintest.Start(t, &fake{run: pipeline(5, acked)}, plugintest.Config{})
	for range 2 {
		h.Event()
	}
	h.Ack()
	got := []string{<-acked, <-acked}
	if want := []string{"e0", "e1"}; !slices.Equal(got, want) {
		t.Errorf("acked %v, want %v", got, want)
	}
	h.Event()
	for range 2 { // twice, since a replay may be lost as well
		h.Reconnect()
		for i := 2; i < 5; i++ {
			if e := h.Event(); e.ID != fmt.Sprint("e", i) {
				t.Errorf("replayed %s, want e%d", e.ID, i)
			}
		}
	}
	h.Ack()
	for i := 2; i < 5; i++ {
		if id := <-acked; id != fmt.Sprint("e", i) {
			t.Errorf("acked %s, want e%d", id, i)
		}
	}
}

func TestWindowBoundsUnackedEvents(t *testing.T) {
	h := plugintest.Start(t, &fake{run: pipeline(3, make(chan string, 3))}, plugintest.Config{Window: 1})
	for i := range 3 {
		if e := h.Event(); e.ID != fmt.Sprint("e", i) {
			t.Errorf("got %s, want e%d", e.ID, i)
		}
		if e, ok := h.EventWithin(20 * time.Millisecond); ok {
			t.Errorf("window is 1, but %s came before the ack", e.ID)
		}
		h.Ack()
	}
}

func TestMalformedEventsAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*channel.Event){
		"no id":           func(e *channel.Event) { e.ID = "" },
		"no conversation": func(e *channel.Event) { e.Conversation.ID = "" },
		"no sender":       func(e *channel.Event) { e.Sender.ID = "" },
		"long id":         func(e *channel.Event) { e.ID = strings.Repeat("x", 257) },
		"over a frame":    func(e *channel.Event) { e.Text = strings.Repeat("x", 1<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			results := make(chan error, 1)
			plugintest.Start(t, &fake{run: func(ctx context.Context, in channel.Inbox) error {
				e := numbered(0)
				spoil(&e)
				results <- in.Deliver(ctx, e)
				<-ctx.Done()
				return nil
			}}, plugintest.Config{})
			if err := <-results; !errors.Is(err, channel.ErrMalformed) {
				t.Errorf("got %v, want ErrMalformed", err)
			}
		})
	}
}

// TestDoneIsCalledInOrder: an event that this package refuses is done with after the events before it, and those behind it arrive.
func TestDoneIsCalledInOrder(t *testing.T) {
	done := make(chan string, 4)
	h := plugintest.Start(t, &fake{run: func(ctx context.Context, in channel.Inbox) error {
		for i, id := range []string{"", "a", "", "b"} {
			e := numbered(i)
			e.ID = id
			if err := in.DeliverAsync(ctx, e, func(err error) { done <- fmt.Sprint(id, errors.Is(err, channel.ErrMalformed)) }); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	}}, plugintest.Config{Window: 3})
	for _, want := range []string{"a", "b"} {
		if e := h.Event(); e.ID != want {
			t.Errorf("event %s, want %s", e.ID, want)
		}
	}
	if len(done) != 1 {
		t.Errorf("%d events are done with before the host has the first", len(done))
	}
	h.Ack()
	for _, want := range []string{"true", "afalse", "true", "bfalse"} {
		if got := <-done; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestDeliverAll(t *testing.T) {
	result := make(chan error, 1)
	h := plugintest.Start(t, &fake{run: func(ctx context.Context, in channel.Inbox) error {
		bad := numbered(1)
		bad.ID = ""
		result <- channel.DeliverAll(ctx, in, []channel.Event{numbered(0), bad, numbered(2)})
		result <- channel.DeliverAll(ctx, in, []channel.Event{numbered(3)})
		<-ctx.Done()
		return nil
	}}, plugintest.Config{})
	h.Event()
	h.Event()
	h.Ack()
	if err := <-result; err != nil {
		t.Errorf("events that are settled: %v", err)
	}
	h.Event()
	if err := h.Shutdown(); err != nil {
		t.Error(err)
	}
	if err := <-result; err == nil {
		t.Error("an event that was not acked counts as delivered")
	}
}

// TestWhatTheHostRefusesIsMalformed: whether the plugin waits for each event or not, it hears which one the host refused, that it is
// final, and that the host has the others.
func TestWhatTheHostRefusesIsMalformed(t *testing.T) {
	type result struct {
		id  string
		err error
	}
	for name, run := range map[string]func(chan<- result) func(context.Context, channel.Inbox) error{
		"synchronous": func(results chan<- result) func(context.Context, channel.Inbox) error {
			return func(ctx context.Context, in channel.Inbox) error {
				var all sync.WaitGroup
				for i := range 3 {
					e := numbered(i)
					e.ID = "e" // their order is left open
					all.Go(func() { results <- result{e.ID, in.Deliver(ctx, e)} })
				}
				all.Wait()
				<-ctx.Done()
				return nil
			}
		},
		"asynchronous": func(results chan<- result) func(context.Context, channel.Inbox) error {
			return func(ctx context.Context, in channel.Inbox) error {
				for i := range 3 {
					e := numbered(i)
					if err := in.DeliverAsync(ctx, e, func(err error) { results <- result{e.ID, err} }); err != nil {
						return err
					}
				}
				<-ctx.Done()
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			results := make(chan result, 3)
			h := plugintest.Start(t, &fake{run: run(results)}, plugintest.Config{Window: 3})
			h.Event()
			h.Event()
			h.Reject("conversation.id has unprintable characters")
			h.Event()
			h.Ack()
			malformed := 0
			for i := range 3 {
				r := <-results
				if errors.Is(r.err, channel.ErrMalformed) && strings.Contains(r.err.Error(), "unprintable characters") {
					malformed++
				} else if r.err != nil {
					t.Errorf("event %s: %v", r.id, r.err)
				}
				if name == "asynchronous" && (r.id != fmt.Sprint("e", i) || (r.err != nil) != (i == 1)) {
					t.Errorf("result %d is of %s: %v", i, r.id, r.err)
				}
			}
			if malformed != 1 {
				t.Errorf("%d of 3 events were refused, want 1", malformed)
			}
			h.Reconnect()
			if e, ok := h.EventWithin(20 * time.Millisecond); ok {
				t.Errorf("%s comes again", e.ID)
			}
		})
	}
}

func TestInvalidUTF8IsReplaced(t *testing.T) {
	h := plugintest.Start(t, &fake{run: func(ctx context.Context, in channel.Inbox) error {
		e := numbered(0)
		e.Text = "a\xffb"
		if err := in.DeliverAsync(ctx, e, func(error) {}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}}, plugintest.Config{})
	if got, want := h.Event().Text, "a\uFFFDb"; got != want {
		t.Errorf("text is %q, want %q", got, want)
	}
}

func TestRepeatedKeyIsSentOnce(t *testing.T) {
	f := &fake{}
	h := plugintest.Start(t, f, plugintest.Config{})
	first, err := h.Send(channel.Send{Key: "k"})
	if err != nil || first.Outcome != channel.OutcomeSent {
		t.Fatalf("first send: %+v, %v", first, err)
	}
	again, err := h.Send(channel.Send{Key: "k"})
	if err != nil || again.Outcome != channel.OutcomeDuplicate || !slices.Equal(again.MessageIDs, first.MessageIDs) {
		t.Errorf("second send: %+v, %v", again, err)
	}
	if n := f.sends.Load(); n != 1 {
		t.Errorf("the plugin sent %d times, want 1", n)
	}
}

func TestFailedSendMayBeTriedAgain(t *testing.T) {
	fail := true
	f := &fake{send: func(context.Context, channel.Send) (channel.Sent, error) {
		if fail {
			fail = false
			return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: time.Minute}, errors.New("flood")
		}
		return channel.Sent{}, nil
	}}
	h := plugintest.Start(t, f, plugintest.Config{})
	sent, err := h.Send(channel.Send{Key: "k"})
	if sent.Outcome != channel.OutcomeNotSent || sent.RetryAfter != time.Minute || err == nil {
		t.Errorf("failed send: %+v, %v", sent, err)
	}
	if sent, err := h.Send(channel.Send{Key: "k"}); err != nil || sent.Outcome != channel.OutcomeSent {
		t.Errorf("second try: %+v, %v", sent, err)
	}
}

func TestErrorAloneMeansUnknown(t *testing.T) {
	f := &fake{send: func(context.Context, channel.Send) (channel.Sent, error) {
		return channel.Sent{}, errors.New("connection reset")
	}}
	h := plugintest.Start(t, f, plugintest.Config{})
	if sent, err := h.Send(channel.Send{Key: "k"}); sent.Outcome != channel.OutcomeUnknown || err == nil {
		t.Errorf("got %+v, %v", sent, err)
	}
}

func TestAbilitiesFollowFromInterfaces(t *testing.T) {
	plain := plugintest.Start(t, &fake{}, plugintest.Config{})
	if got := plain.Abilities(); got != nil {
		t.Errorf("a plain channel declares %v", got)
	}
	if err := plain.Typing(channel.Typing{}); err == nil || !strings.Contains(err.Error(), "Unimplemented") {
		t.Errorf("typing on a plain channel: %v", err)
	}
	all := plugintest.Start(t, &rich{}, plugintest.Config{})
	want := []string{"edit", "typing", "delete", "react", "fetch", "upload", "resolve", "reconcile"}
	if got := all.Abilities(); !slices.Equal(got, want) {
		t.Errorf("a rich channel declares %v, want %v", got, want)
	}
}

func TestStaleRevisionsAreDropped(t *testing.T) {
	h := plugintest.Start(t, &rich{}, plugintest.Config{})
	for _, step := range []struct {
		revision uint64
		text     string
		final    bool
		applied  bool
	}{
		{revision: 1, applied: true}, {revision: 3, applied: true}, {revision: 2}, {revision: 3},
		{revision: 4, text: "slow down"}, {revision: 5, text: "slow down", final: true}, {revision: 5, final: true},
		{revision: 6, final: true, applied: true}, {revision: 7},
	} {
		applied, err := h.Edit(channel.Edit{MessageID: "m", Revision: step.revision, Text: step.text, Final: step.final})
		if err != nil || applied != step.applied {
			t.Errorf("revision %d: applied %t, %v; want %t", step.revision, applied, err, step.applied)
		}
	}
}

func TestMediaComesInChunks(t *testing.T) {
	h := plugintest.Start(t, &rich{}, plugintest.Config{})
	got, err := h.Fetch("x")
	if err != nil || len(got) != 300<<10 {
		t.Errorf("fetched %d bytes, %v; want %d", len(got), err, 300<<10)
	}
}

func TestWrongSettingsComeBackByField(t *testing.T) {
	var settings struct {
		Server string `json:"server"`
		Port   int    `json:"port"`
	}
	f := &fake{configure: func(c channel.Config) error { return c.Decode(&settings) }}
	for name, c := range map[string]struct {
		settings map[string]any
		path     string
	}{
		"unknown key": {map[string]any{"sever": "x"}, "sever"},
		"wrong type":  {map[string]any{"port": "x"}, "port"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plugintest.TryStart(t, f, plugintest.Config{Settings: c.settings})
			wrong, ok := errors.AsType[channel.FieldErrors](err)
			if !ok || len(wrong) != 1 || wrong[0].Path != c.path {
				t.Errorf("got %v, want one error at %s", err, c.path)
			}
		})
	}
}

func TestStatusShowsTheLatest(t *testing.T) {
	h := plugintest.Start(t, &fake{run: func(ctx context.Context, in channel.Inbox) error {
		in.Status(channel.StateReady, "as flynn")
		<-ctx.Done()
		return nil
	}}, plugintest.Config{})
	if text := h.WaitStatus(channel.StateReady); text != "as flynn" {
		t.Errorf("text is %q", text)
	}
}

func TestShutdownWaitsForSends(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	f := &fake{send: func(context.Context, channel.Send) (channel.Sent, error) {
		close(started)
		<-finish
		return channel.Sent{}, nil
	}}
	h := plugintest.Start(t, f, plugintest.Config{})
	sent := make(chan error, 1)
	go func() {
		_, err := h.Send(channel.Send{Key: "k"})
		sent <- err
	}()
	<-started
	down := make(chan error, 1)
	go func() { down <- h.Shutdown() }()
	select {
	case err := <-down:
		t.Fatalf("shut down with a send in flight: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(finish)
	if err := errors.Join(<-sent, <-down); err != nil {
		t.Error(err)
	}
}

func TestFailingRunEndsThePlugin(t *testing.T) {
	for name, cause := range map[string]error{"with an error": errors.New("no route"), "early": nil} {
		t.Run(name, func(t *testing.T) {
			h := plugintest.Start(t, &fake{run: func(context.Context, channel.Inbox) error { return cause }}, plugintest.Config{})
			if err := h.Wait(); err == nil {
				t.Error("the plugin ended without an error")
			}
		})
	}
}

func TestConcurrentRepeatsOfAKeySendOnce(t *testing.T) {
	release := make(chan struct{})
	f := &fake{send: func(context.Context, channel.Send) (channel.Sent, error) {
		<-release
		return channel.Sent{MessageIDs: []string{"m"}}, nil
	}}
	h := plugintest.Start(t, f, plugintest.Config{})
	outcomes := make(chan channel.Outcome, 8)
	for range cap(outcomes) {
		go func() {
			sent, err := h.Send(channel.Send{Key: "k"})
			if err != nil {
				t.Error(err)
			}
			outcomes <- sent.Outcome
		}()
	}
	close(release)
	count := map[channel.Outcome]int{}
	for range cap(outcomes) {
		count[<-outcomes]++
	}
	if n := f.sends.Load(); n != 1 || count[channel.OutcomeSent] != 1 || count[channel.OutcomeDuplicate] != 7 {
		t.Errorf("the plugin sent %d times, outcomes %v", n, count)
	}
}

func TestDecodeKeepsLargeIntegers(t *testing.T) {
	const id = int64(-1001234567890123457) // does not fit a float64
	var settings struct {
		Chat int64 `json:"chat"`
	}
	plugintest.Start(t, &fake{configure: func(c channel.Config) error { return c.Decode(&settings) }},
		plugintest.Config{Settings: map[string]any{"chat": id}})
	if settings.Chat != id {
		t.Errorf("got %d, want %d", settings.Chat, id)
	}
}
