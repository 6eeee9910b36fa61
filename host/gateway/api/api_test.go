package api

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// fakeHost accepts messages; the test settles them.
type fakeHost struct {
	mu       sync.Mutex
	accepted []message.Message
	settled  map[string]Settlement
	live     []message.Event // of a turn that runs
	watchers map[chan message.Event]bool
	stopped  []string
}

func newFakeHost() *fakeHost {
	return &fakeHost{settled: map[string]Settlement{}, watchers: map[chan message.Event]bool{}}
}

func (h *fakeHost) Submit(_ context.Context, m message.Message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.accepted = append(h.accepted, m)
	return nil
}

func (h *fakeHost) Watch(string, string) ([]message.Event, <-chan message.Event, func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := make(chan message.Event, 16)
	h.watchers[w] = true
	return h.live, w, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, w)
	}
}

func (h *fakeHost) MaxFiles() int { return 10 }

func (h *fakeHost) Keep(_ context.Context, _ message.SenderKey, f File) (message.Attachment, error) {
	return message.Attachment{Handle: string(f.Data), Name: f.Name, Type: f.Type}, nil
}

func (h *fakeHost) HangUp(channel, conversation string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = append(h.stopped, channel+":"+conversation)
}

func (h *fakeHost) Settled(_ context.Context, _, event string) (Settlement, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.settled[event], nil
}

func (h *fakeHost) Agents(string) []Agent { return nil }

func (h *fakeHost) Ignores(string) ([]string, string) { return nil, "" }

func (h *fakeHost) publish(events ...message.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		for _, e := range events {
			w <- e
		}
	}
}

func (h *fakeHost) settle(event string, s Settlement) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Done = true
	h.settled[event] = s
}

// cut ends the subscriptions, as if all watchers were too slow; those that come back find past events.
func (h *fakeHost) cut(live ...message.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live = live
	for w := range h.watchers {
		close(w)
	}
	clear(h.watchers)
}

func newTestService(h Host) *Service {
	n := 0
	return New(h, func() string { n++; return strconv.Itoa(n) })
}

func TestAskFollowsItsOwnTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHost()
		var seen []string
		done := make(chan Settlement)
		go func() {
			s, err := newTestService(h).Ask(t.Context(), Question{
				Channel: OpenAI, Client: "editor", Agent: "main", Session: "s", ID: "q", Text: "hello",
				Watch: func(e message.Event) { seen = append(seen, e.Text) },
			})
			if err != nil {
				t.Error(err)
			}
			done <- s
		}()
		synctest.Wait()
		h.publish(
			message.Event{Kind: message.TextDelta, Turn: "before", Text: "not ours"},
			message.Event{Kind: message.TurnDone, Turn: "before"},
			message.Event{Kind: message.TurnStarted, Turn: "t", Text: "begin"},
			message.Event{Kind: message.TextDelta, Turn: "t", Text: "ours"},
		)
		synctest.Wait()
		h.settle("editor/q", Settlement{Text: "answer"})
		h.publish(message.Event{Kind: message.TurnDone, Turn: "t"})
		if s := <-done; s.Text != "answer" || strings.Join(seen, ",") != "begin,ours," {
			t.Errorf("settled %+v, seen %q", s, seen)
		}
		m := h.accepted[0]
		if m.SenderKey() != "openai:editor" || m.Conversation.ID != "editor/s" || m.Agent != "main" || m.EventID != "editor/q" {
			t.Errorf("message %+v", m)
		}
	})
}

// A view that comes into a turn, or comes back after a gap, has all that was written once.
func TestAskComesIntoATurn(t *testing.T) {
	begin := message.Event{Kind: message.TurnStarted, Turn: "t", Answers: []string{"other", "editor/q"}}
	delta := func(text string) message.Event { return message.Event{Kind: message.TextDelta, Turn: "t", Text: text} }
	call := message.Event{Kind: message.ToolCall, Turn: "t", Text: "|"}
	strange := []message.Event{{Kind: message.TurnStarted, Turn: "u", Answers: []string{"else"}}, {Kind: message.TextDelta, Turn: "u", Text: "not ours"}}
	for _, c := range []struct {
		name          string
		before, after []message.Event
		then, want    string
	}{
		{"not begun", nil, strange, "", ""},
		{"begun elsewhere", nil, append(strange, begin, delta("one ")), "two", "one two"},
		{"more of the text", []message.Event{begin, delta("one ")}, []message.Event{begin, delta("one two ")}, "three", "one two three"},
		{"nothing new", []message.Event{begin, delta("one ")}, append(strange, begin, delta("one ")), "two", "one two"},
		{"another text", []message.Event{begin, delta("one ")}, []message.Event{begin, delta("uno ")}, "due", "one "},
		{"a call since", []message.Event{begin, delta("one")}, []message.Event{begin, delta("one two"), call, delta("three ")}, "four", "one|three four"},
		{"a call that runs", []message.Event{begin, delta("one")}, []message.Event{begin, call}, "four", "one|four"},
		{"over", []message.Event{begin, delta("one")}, nil, "", "one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFakeHost()
				var seen strings.Builder
				done := make(chan error)
				go func() {
					_, err := newTestService(h).Ask(t.Context(), Question{
						Channel: OpenAI, Client: "editor", Session: "s", ID: "q", Text: "hello", Watch: func(e message.Event) { seen.WriteString(e.Text) },
					})
					done <- err
				}()
				synctest.Wait()
				h.publish(c.before...)
				synctest.Wait()
				h.cut(c.after...)
				synctest.Wait()
				if c.then != "" {
					h.publish(delta(c.then))
				}
				synctest.Wait()
				h.settle("editor/q", Settlement{})
				h.publish(message.Event{Kind: message.TurnDone, Turn: "t"})
				if err := <-done; err != nil || seen.String() != c.want {
					t.Errorf("%v, seen %q, want %q", err, seen.String(), c.want)
				}
			})
		})
	}
}

func TestAskWithoutEventsAsksTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHost()
		time.AfterFunc(10*time.Second, func() { h.settle("editor/q", Settlement{Failed: true, Refused: true, Text: "why"}) })
		s, err := newTestService(h).Ask(t.Context(), Question{Channel: MCP, Client: "editor", ID: "q", Text: "hello"})
		if err != nil || !s.Refused || s.Text != "why" {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// An id is one question's: the answer of another one is none.
func TestIDOfAnotherQuestion(t *testing.T) {
	first := Question{Channel: OpenAI, Client: "editor", Agent: "main", Session: "s", ID: "q", Text: "hello", Files: []File{{Data: []byte("a")}}}
	h := newFakeHost()
	h.settle("editor/q", Settlement{Text: "answer"})
	if _, err := newTestService(h).Ask(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	accepted := h.accepted[0]
	h.settle("editor/q", Settlement{Message: accepted, Text: "answer"})
	for name, c := range map[string]struct {
		change func(*Question)
		want   error
	}{
		"the same":        {func(*Question) {}, nil},
		"other words":     {func(q *Question) { q.Text = "hullo" }, ErrReused},
		"another agent":   {func(q *Question) { q.Agent = "other" }, ErrReused},
		"another session": {func(q *Question) { q.Session = "" }, ErrReused},
		"another file":    {func(q *Question) { q.Files = []File{{Data: []byte("b")}} }, ErrReused},
		"no file":         {func(q *Question) { q.Files = nil }, ErrReused},
		"a call":          {func(q *Question) { q.Call = &message.Call{Tool: "t"} }, ErrReused},
	} {
		q := first
		c.change(&q)
		s, err := newTestService(h).Ask(t.Context(), q)
		if !errors.Is(err, c.want) || (err == nil) != (s.Text == "answer") {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	called := first
	called.Call = &message.Call{Tool: "t", Args: json.RawMessage(`{ "command": "a > b" }`)}
	stored := accepted
	stored.Call = &message.Call{Tool: "t", Args: json.RawMessage(`{"command":"a \u003e b"}`)}
	h.settle("editor/q", Settlement{Message: stored, Text: "answer"})
	if _, err := newTestService(h).Ask(t.Context(), called); err != nil {
		t.Errorf("a call that was stored: %v", err)
	}
	accepted.Text, accepted.Attachments = "", nil
	h.settle("editor/q", Settlement{Message: accepted, Text: "answer"})
	if s, err := newTestService(h).Ask(t.Context(), first); err != nil || s.Text != "answer" {
		t.Errorf("after what was said is deleted: %+v, %v", s, err)
	}
}

func TestQuestionsOfASessionWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeHost()
		d := newTestService(h)
		var all sync.WaitGroup
		for _, id := range []string{"a", "b"} {
			all.Go(func() {
				if _, err := d.Ask(t.Context(), Question{Channel: MCP, Client: "editor", Session: "s", ID: id, Text: "hello"}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if len(h.accepted) != 1 {
			t.Fatalf("%d questions at a time", len(h.accepted))
		}
		h.settle(h.accepted[0].EventID, Settlement{})
		time.Sleep(recheck)
		synctest.Wait()
		if len(h.accepted) != 2 {
			t.Fatalf("%d questions after the first answer", len(h.accepted))
		}
		h.settle(h.accepted[1].EventID, Settlement{})
		all.Wait()
		if len(d.busy) != 0 {
			t.Errorf("%d conversations are left", len(d.busy))
		}
	})
}

func TestWhoGivesUpStopsWhatNobodyCanAskForAgain(t *testing.T) {
	for _, c := range []struct {
		name, id string
		stops    int
	}{{"without an id", "", 1}, {"with one", "q", 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFakeHost()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := newTestService(h).Ask(ctx, Question{Channel: OpenAI, Client: "editor", ID: c.id, Text: "hello"})
				if !errors.Is(err, context.DeadlineExceeded) || len(h.stopped) != c.stops {
					t.Errorf("%v, %d stops", err, len(h.stopped))
				}
			})
		})
	}
}

func TestInvalidQuestions(t *testing.T) {
	for name, q := range map[string]Question{
		"empty":                {Text: " \n"},
		"too long":             {Text: strings.Repeat("x", MaxText+1)},
		"another's session":    {Text: "x", Session: "../other"},
		"a session of a colon": {Text: "x", Session: "a:b"},
		"a long id":            {Text: "x", ID: strings.Repeat("x", maxName+1)},
		"an id with a space":   {Text: "x", ID: "a b"},
	} {
		h := newFakeHost()
		if _, err := newTestService(h).Ask(t.Context(), q); !errors.Is(err, ErrInvalid) || len(h.accepted) != 0 {
			t.Errorf("%s: %v, %d accepted", name, err, len(h.accepted))
		}
	}
}

// TestARetriedQuestionIsTheSame asks again, without an ID, what an earlier process left unanswered.
func TestARetriedQuestionIsTheSame(t *testing.T) {
	left := func(session, text string) message.Message {
		return message.Message{
			Channel: OpenAI, EventID: "editor/left", Conversation: message.Conversation{ID: "editor/" + session, Kind: message.DM},
			Sender: message.Sender{ID: "editor"}, Agent: "main", Text: text,
		}
	}
	for _, c := range []struct {
		name  string
		left  message.Message
		q     Question
		later time.Duration
		same  bool
	}{
		{"in its session", left("s", "deploy"), Question{Session: "s", Text: "deploy"}, 0, true},
		{"without a session", left("once/1", "deploy"), Question{Text: "deploy"}, 0, true},
		{"another question", left("s", "deploy"), Question{Session: "s", Text: "deploy again"}, 0, false},
		{"another session", left("s", "deploy"), Question{Session: "z", Text: "deploy"}, 0, false},
		{"a session after none", left("once/1", "deploy"), Question{Session: "s", Text: "deploy"}, 0, false},
		{"with an id", left("s", "deploy"), Question{Session: "s", Text: "deploy", ID: "q"}, 0, false},
		{"a call", left("s", "deploy"), Question{Session: "s", Text: "deploy", Call: &message.Call{Tool: "x"}}, 0, false},
		{"much later", left("s", "deploy"), Question{Session: "s", Text: "deploy"}, retryTime, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFakeHost()
				d := newTestService(h)
				d.Left([]message.Message{c.left})
				time.Sleep(c.later)
				c.q.Channel, c.q.Client, c.q.Agent = OpenAI, "editor", "main"
				for i := range 2 { // the second time it is a question of its own
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan error, 1)
					go func() { _, err := d.Ask(ctx, c.q); done <- err }()
					synctest.Wait()
					cancel()
					<-done
					m := h.accepted[i]
					if same := m.EventID == "editor/left" && m.Conversation.ID == c.left.Conversation.ID; same != (c.same && i == 0) {
						t.Errorf("question %d was asked as %s in %s, the same: %v", i, m.EventID, m.Conversation.ID, same)
					}
				}
			})
		})
	}
}
