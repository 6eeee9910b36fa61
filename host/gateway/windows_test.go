package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

// pagesAgree is a property of the page: whatever is said where, whatever streams, and whichever window is reloaded or loses its connection
// at whatever moment, every window shows every question and everything that was streamed, in one order.
func pagesAgree(t *testing.T, b context.Context) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { newWindows(t, b, seed).play(40) })
	}
}

// windows are two pages of one conversation and what they should show. The agent does what the test says, a stage at a time.
type windows struct {
	t       *testing.T
	rand    *rand.Rand
	gateway *fixture
	pages   []pageDriver
	log     []string

	begun  chan struct{}
	orders chan func(*gatewaytest.Turn) *ending
	obeyed chan struct{}
	pass   chan struct{} // lets a call go on to its next stage
	staged chan struct{} // a call has come to a stage

	serial int
	past   []string // lines that no event changes any more
	queue  []string // said, not taken
	run    *running // nil while nobody answers
}

// running is the turn that runs.
type running struct {
	said  string
	text  string // streamed since the last call
	calls []string
	stage int // of the last call: 0 none or over, 1 announced, 2 its output has come
	name  string
}

// ending is how a turn ends.
type ending struct {
	reply string
	err   error
}

func newWindows(t *testing.T, b context.Context, seed uint64) *windows {
	w := &windows{
		t: t, rand: rand.New(rand.NewPCG(seed, 12)), begun: make(chan struct{}), obeyed: make(chan struct{}), pass: make(chan struct{}),
		staged: make(chan struct{}), orders: make(chan func(*gatewaytest.Turn) *ending),
	}
	w.gateway = open(t, func(ctx context.Context, turn *gatewaytest.Turn, _ string) (string, error) {
		w.begun <- struct{}{}
		for {
			select {
			case order := <-w.orders:
				end := order(turn)
				w.obeyed <- struct{}{}
				if end != nil {
					return end.reply, end.err
				}
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
	}, again(t))
	for range 2 {
		w.pages = append(w.pages, visit(t, b, w.gateway))
	}
	return w
}

func (w *windows) play(steps int) {
	moves := []struct {
		name string
		may  func() bool
		do   func()
	}{
		{"say in a window", func() bool { return len(w.queue) < 3 }, w.say},
		{"say elsewhere", func() bool { return len(w.queue) < 3 }, w.sayElsewhere},
		{"stream", w.talking, w.stream},
		{"stream on", w.talking, w.stream},
		{"call a tool", func() bool { return w.talking() && len(w.run.calls) < 3 }, w.call},
		{"go on with the call", func() bool { return w.run != nil && w.run.stage > 0 }, w.goOn},
		{"answer", w.talking, func() { w.end(nil) }},
		{"fail", w.talking, func() { w.end(errors.New("the model could not be reached")) }},
		{"reload", func() bool { return true }, func() { w.any().reload() }},
		{"reload again", func() bool { return true }, func() { w.any().reload() }},
		{"cut the connections", func() bool { return true }, w.cut},
	}
	for range steps {
		m := moves[w.rand.IntN(len(moves))]
		if !m.may() {
			continue
		}
		w.log = append(w.log, m.name)
		m.do()
		w.agree()
		if w.t.Failed() {
			return
		}
	}
	for w.run != nil { // to the end, so that nothing waits for an order
		for w.run.stage > 0 {
			w.goOn()
		}
		w.end(nil)
	}
	w.agree()
}

func (w *windows) any() pageDriver { return w.pages[w.rand.IntN(len(w.pages))] }

func (w *windows) talking() bool { return w.run != nil && w.run.stage == 0 }

func (w *windows) word(what string) string {
	w.serial++
	return fmt.Sprintf("%s%d", what, w.serial)
}

func (w *windows) say() {
	text := w.word("question")
	w.any().say(text)
	w.said(text)
}

// sayElsewhere is another client with words of its own.
func (w *windows) sayElsewhere() {
	text := rude.Text(w.rand)
	for strings.TrimSpace(text) == "" || !utf8.ValidString(text) || len(text) > 4000 {
		text = rude.Text(w.rand)
	}
	err := w.gateway.backend.Submit(w.t.Context(), message.Message{
		Channel: "web", EventID: w.word("event"), Conversation: message.Conversation{ID: "main", Kind: message.DM}, Text: text,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.said(text)
}

func (w *windows) said(text string) {
	w.queue = append(w.queue, "you: "+text)
	w.next()
}

// next waits for the turn of what was said first.
func (w *windows) next() {
	if w.run != nil || len(w.queue) == 0 {
		return
	}
	<-w.begun
	w.run, w.queue = &running{said: w.queue[0]}, w.queue[1:]
}

func (w *windows) order(do func(*gatewaytest.Turn) *ending) {
	w.orders <- do
	<-w.obeyed
}

func (w *windows) stream() {
	text := w.word("word") + " "
	w.run.text += text
	w.order(func(t *gatewaytest.Turn) *ending { t.Say(text); return nil })
}

func (w *windows) end(err error) {
	w.run.text += w.word("end") // that was not streamed
	over := &ending{w.run.text, err}
	w.order(func(*gatewaytest.Turn) *ending { return over })
	w.past = append(w.past, w.run.said)
	w.past = append(w.past, w.run.calls...)
	if err == nil {
		w.past = append(w.past, "agent: "+w.run.text)
	} else {
		w.past = append(w.past, "failed: "+err.Error())
	}
	w.run = nil
	w.next()
}

func (w *windows) call() {
	text := w.run.text
	w.run.name = w.word("command")
	stage := func() { w.staged <- struct{}{}; <-w.pass }
	w.orders <- func(t *gatewaytest.Turn) *ending {
		if text != "" {
			t.Keep(text)
		}
		if _, err := t.Run(context.Background(), gatewaytest.Call{
			Tool: "shell", Args: map[string]string{"command": w.run.name}, Decision: "run", Where: "host", Output: "out of " + w.run.name,
			Before: stage, During: stage,
		}); err != nil {
			w.t.Error(err)
		}
		return nil
	}
	<-w.staged
	if text != "" {
		w.run.calls = append(w.run.calls, "agent: "+strings.TrimSpace(text))
	}
	w.run.text, w.run.stage = "", 1
	w.run.calls = append(w.run.calls, "call: "+w.run.name+" running ")
}

func (w *windows) goOn() {
	last := len(w.run.calls) - 1
	w.pass <- struct{}{}
	if w.run.stage == 1 {
		<-w.staged
		w.run.stage = 2
		w.run.calls[last] = "call: " + w.run.name + " running out of " + w.run.name
		return
	}
	<-w.obeyed
	w.run.stage = 0
	w.run.calls[last] = "call: " + w.run.name + " done out of " + w.run.name
}

// cut restarts the gateway; the windows find it again by themselves.
func (w *windows) cut() {
	w.gateway.stop()
	w.gateway.start()
}

// want is every line of the conversation.
func (w *windows) want() []string {
	lines := append([]string{}, w.past...)
	if w.run != nil {
		lines = append(append(lines, w.run.said), w.run.calls...)
		if w.run.text != "" {
			lines = append(lines, "agent: "+strings.TrimSpace(w.run.text))
		}
	}
	return append(lines, w.queue...)
}

// shownLines reads a page in the same form.
const shownLines = `JSON.stringify([...document.querySelectorAll("#transcript > :not(.after)")].map((n) =>
	n.matches(".user") ? "you: " + n.querySelector(".bubble").textContent :
	n.matches(".call") ? "call: " + n.querySelector(".gist").textContent + " " + n.querySelector(".mark").className.replace("mark ", "") + " " + n.querySelector(".output pre").textContent :
	(n.matches(".failed") ? "failed: " : "agent: ") + n.textContent.trim()))`

// agree waits until every window shows the conversation.
func (w *windows) agree() {
	w.t.Helper()
	want, err := json.Marshal(w.want())
	if err != nil {
		w.t.Fatal(err)
	}
	for i, p := range w.pages {
		var got string
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			got = p.eval(shownLines)
			if sameList(got, string(want)) {
				break
			}
			if time.Now().After(deadline) {
				w.t.Errorf("after %s, window %d\n shows %s\nwant  %s", strings.Join(w.log, ", "), i+1, got, want)
				return
			}
		}
	}
}

func sameList(a, b string) bool {
	var x, y []string
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil || len(x) != len(y) {
		return false
	}
	for i := range x {
		if x[i] != y[i] {
			return false
		}
	}
	return true
}
