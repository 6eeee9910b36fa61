package watch_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/gateway/watch"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// elsewhere is another host, and the journal and ownership of this one.
type elsewhere struct {
	mu      sync.Mutex
	off     bool
	fails   error
	past    []message.Event
	streams []*stream
	told    []message.Event
	holds   bool
	moved   bool
	changes []store.Change
	more    chan struct{}
}

type stream struct {
	of     *elsewhere
	past   []message.Event
	events chan message.Event // one without a kind is a gap
	over   chan struct{}
	once   sync.Once
}

var errCut = errors.New("cut")

func (e *elsewhere) On() bool                  { return !e.off }
func (e *elsewhere) Shared() bool              { return true }
func (e *elsewhere) Holds(store.OwnerKey) bool { e.mu.Lock(); defer e.mu.Unlock(); return e.holds }

func (e *elsewhere) Join(context.Context, message.ConversationKey) (watch.Stream, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fails != nil {
		return nil, e.fails
	}
	s := &stream{of: e, past: e.past, events: make(chan message.Event, 100), over: make(chan struct{})}
	e.streams = append(e.streams, s)
	return s, nil
}

func (e *elsewhere) Tell(_ context.Context, _ message.ConversationKey, events []message.Event) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, events...)
	return e.fails
}

func (s *stream) Past() []message.Event { return s.past }
func (s *stream) Owned(context.Context) bool {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	return !s.of.moved
}
func (s *stream) Close() { s.once.Do(func() { close(s.over) }) }

func (s *stream) Next() (*message.Event, bool, error) {
	select {
	case e := <-s.events:
		if e.Kind == "" {
			return nil, true, nil
		}
		return &e, false, nil
	case <-time.After(300 * time.Millisecond):
		return nil, false, nil
	case <-s.over:
		return nil, false, errCut
	}
}

func (e *elsewhere) Read(_ context.Context, after int64, limit int) ([]store.Change, store.Kept, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changes[min(int(after), len(e.changes)):], store.Kept{Last: int64(len(e.changes))}, nil
}

func (e *elsewhere) More() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.more
}

// change notes a change of the conversation in the journal.
func (e *elsewhere) change() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes = append(e.changes, store.Change{Seq: int64(len(e.changes) + 1), Kind: store.Conversations, ID: "web/a"})
	close(e.more)
	e.more = make(chan struct{})
}

func (e *elsewhere) set(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	do()
}

// stream returns the latest stream.
func (e *elsewhere) stream() *stream {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.streams[len(e.streams)-1]
}

func (e *elsewhere) joins() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.streams)
}

// follows runs a test with a hub that follows another host.
func follows(t *testing.T, e *elsewhere, test func(t *testing.T, h *watch.Hub)) {
	synctest.Test(t, func(t *testing.T) {
		e.more = make(chan struct{})
		h := watch.NewHub(8)
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			if err := h.Follow(ctx, e, e, e, slog.New(slog.DiscardHandler)); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		test(t, h)
		stop()
		<-over
	})
}

// shut reports whether a watcher was cut off, after what it has got.
func shut(events <-chan message.Event) (cut bool, got string) {
	synctest.Wait()
	var all []message.Event
	for {
		select {
		case e, open := <-events:
			if !open {
				return true, words(all)
			}
			all = append(all, e)
			continue
		default:
		}
		return false, words(all)
	}
}

func wants(t *testing.T, what string, events <-chan message.Event, cut bool, want string) {
	t.Helper()
	if was, got := shut(events); was != cut || got != want {
		t.Errorf("%s: cut off %t, got %q; want %t, %q", what, was, got, cut, want)
	}
}

var (
	started = event(message.TurnStarted, "")
	done    = event(message.TurnDone, "")
)

func TestAnotherHostsTurnIsSeen(t *testing.T) {
	e := &elsewhere{past: []message.Event{started, event(message.TextDelta, "one ")}}
	follows(t, e, func(t *testing.T, h *watch.Hub) {
		told, first, stop := h.Watch("web", "a")
		if words(told) != "turn_started text_delta:one " {
			t.Errorf("told %q", words(told))
		}
		e.stream().events <- event(message.TextDelta, "two")
		wants(t, "an event", first, false, "text_delta:two")
		told, second, stopSecond := h.Watch("web", "a")
		if words(told) != "turn_started text_delta:one two" || e.joins() != 1 {
			t.Errorf("the second was told %q by %d streams", words(told), e.joins())
		}
		if told, _, stop := h.Local("web", "a"); len(told) != 0 {
			t.Errorf("another host is told %q, which is not of this one", words(told))
		} else {
			stop()
		}
		e.change() // is among the events
		time.Sleep(time.Second)
		wants(t, "a change", first, false, "")

		e.stream().events <- message.Event{}
		wants(t, "a gap", first, true, "")
		wants(t, "a gap", second, true, "")
		stop()
		stopSecond()

		_, third, stopThird := h.Watch("web", "a")
		e.stream().events <- done
		wants(t, "the end", third, false, "turn_done")
		e.stream().Close()
		wants(t, "a cut connection", third, true, "")
		stopThird()
		told, fourth, stopFourth := h.Watch("web", "a")
		time.Sleep(time.Second) // it is joined again, and begins anew
		wants(t, "the new connection", fourth, len(told) == 0, "")
		stopFourth()
		if e.joins() != 2 {
			t.Errorf("%d streams", e.joins())
		}
		told, fifth, stopFifth := h.Watch("web", "a")
		if words(told) != "turn_started text_delta:one " {
			t.Errorf("told %q", words(told))
		}
		e.set(func() { e.moved = true })
		e.change()
		time.Sleep(time.Second / 2)
		wants(t, "a conversation that has moved", fifth, true, "")
		stopFifth()
		time.Sleep(time.Minute) // nobody watches
		last := e.joins()
		time.Sleep(time.Hour)
		if e.joins() != last {
			t.Error("it is joined although nobody watches")
		}
		select {
		case <-e.stream().over:
		default:
			t.Error("the last stream is not closed")
		}
	})
}

func TestAHostThatIsNotReachedIsFollowedByTheStore(t *testing.T) {
	e := &elsewhere{fails: errors.New("refused")}
	follows(t, e, func(t *testing.T, h *watch.Hub) {
		told, events, stop := h.Watch("web", "a")
		if len(told) != 0 {
			t.Error("it was told something")
		}
		wants(t, "nothing", events, false, "")
		e.change()
		wants(t, "a change", events, true, "")
		stop()
		_, events, stop = h.Watch("web", "a")
		e.set(func() { e.fails, e.past = nil, []message.Event{started} })
		time.Sleep(20 * time.Second) // of itself
		wants(t, "the connection", events, true, "")
		stop()
		told, events, stop = h.Watch("web", "a")
		defer stop()
		if words(told) != "turn_started" {
			t.Errorf("told %q", words(told))
		}
		joins := e.joins()
		e.set(func() { e.holds = true }) // now this host owns it
		time.Sleep(time.Second)
		wants(t, "the end", events, true, "")
		told, events, stopLast := h.Watch("web", "a")
		defer stopLast()
		h.Publish(started)
		wants(t, "its own", events, false, "turn_started")
		e.change()
		time.Sleep(time.Minute)
		wants(t, "its own changes", events, false, "")
		if len(told) != 0 || e.joins() != joins {
			t.Errorf("told %q, %d streams", words(told), e.joins())
		}
	})
}

func TestWithoutAWayTheStoreIsFollowed(t *testing.T) {
	e := &elsewhere{off: true}
	follows(t, e, func(t *testing.T, h *watch.Hub) {
		_, events, stop := h.Watch("web", "a")
		defer stop()
		e.change()
		wants(t, "without a way", events, true, "")
		if e.joins() != 0 {
			t.Error("it was joined")
		}
	})
}

// A host that was taken over cannot fill the memory of this one.
func TestAnotherHostIsBounded(t *testing.T) {
	for name, flood := range map[string]func(i int) message.Event{
		"turns": func(i int) message.Event {
			v := started
			v.Turn = strings.Repeat("t", i+1)
			return v
		},
		"text": func(int) message.Event { return event(message.TextDelta, strings.Repeat("x", 64<<10)) },
	} {
		t.Run(name, func(t *testing.T) {
			e := &elsewhere{past: []message.Event{started}}
			follows(t, e, func(t *testing.T, h *watch.Hub) {
				_, _, stop := h.Watch("web", "a")
				defer stop()
				first := e.stream()
				for i := range 10_000 {
					select {
					case first.events <- flood(i):
						continue
					case <-first.over:
					}
					return
				}
				t.Error("it goes on")
			})
		})
	}
}

func TestWhatHappensHereIsShownAtTheOwner(t *testing.T) {
	e := &elsewhere{}
	follows(t, e, func(t *testing.T, h *watch.Hub) {
		_, events, stop := h.Watch("web", "a")
		defer stop()
		h.Show(t.Context(), "web", "a", started, done)
		if words(e.told) != "turn_started turn_done" {
			t.Errorf("told %q", words(e.told))
		}
		wants(t, "what comes back", events, false, "")
		e.set(func() { e.fails = errCut })
		h.Show(t.Context(), "web", "a", started, done)
		wants(t, "what cannot be told", events, false, "turn_started turn_done")
		e.set(func() { e.holds, e.told = true, nil })
		h.Show(t.Context(), "web", "a", started, done)
		if len(e.told) != 0 {
			t.Error("the owner tells others")
		}
	})
}

// BenchmarkPublish is what an event costs a turn: with nobody who watches, and with a page of another host.
func BenchmarkPublish(b *testing.B) {
	delta := event(message.TextDelta, "about as much as a model says at a time")
	for name, watched := range map[string]bool{"nobody": false, "another host": true} {
		b.Run(name, func(b *testing.B) {
			h := watch.NewHub(0)
			if watched {
				_, events, stop := h.Local("web", "a")
				defer stop()
				go func() {
					for range events {
					}
				}()
			}
			n := 0
			for b.Loop() {
				if n++; n%1000 == 1 {
					h.Publish(done)
					h.Publish(started)
				}
				h.Publish(delta)
			}
		})
	}
}
