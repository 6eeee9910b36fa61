package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/gateway/watch"
	bus "github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/observe/explain"
	"github.com/flynnhost/flynn/host/observe/feed"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// busy is a host with a store of many conversations, "web:c0" and so on and the long one "web:long", in which something changes all the time.
type busy struct {
	*fixture
	store *sqlite.Store
	feed  *feed.Feed
	hub   *watch.Hub
	turns int // published
}

// quiet has no turns and no requests.
type quiet struct{}

func (quiet) RunningIn(message.ConversationKey) bool              { return false }
func (quiet) StopIn(message.ConversationKey) bool                 { return false }
func (quiet) Pending(context.Context) ([]consent.Approval, error) { return nil, nil }

const (
	manyConversations = 10_000
	manyMessages      = 5_000
	perSecond         = 100 // events
	long              = "long"
)

func openBusy(t testing.TB, conversations, messages int) *busy {
	t.Helper()
	b := &busy{fixture: open(t, gatewaytest.Demo), hub: watch.NewHub(0)}
	var err error
	if b.store, err = sqlite.Open(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.store.Close() })
	b.fill(conversations, messages)
	b.feed = b.follow(b.store)
	b.with(func(f *gateway.Backend) {
		f.Conversations = backend.Conversations{Events: b.hub, Turns: quiet{}, Approvals: quiet{}, Store: b.store}
		f.Turns, f.Explains = explain.Lister{Store: b.store}, explain.Reader{Store: b.store}
	})
	t.Cleanup(func() { b.stop() })
	return b
}

// follow tells the page of changes.
func (d *fixture) follow(s *sqlite.Store) *feed.Feed {
	f := feed.New(feed.Config{Store: s, Events: &bus.Bus{}, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = f.Run(ctx) })
	d.t.Cleanup(func() { cancel(); running.Wait() })
	d.with(func(b *gateway.Backend) { b.Events = f })
	return f
}

// fill writes the conversations; the long one is the latest.
func (b *busy) fill(conversations, messages int) {
	b.t.Helper()
	at, last := time.Now().Add(-time.Hour), ""
	session := func(conversation string, turns int) turnlog.WholeSession {
		key := message.Session{Scope: "web:" + conversation, Agent: "main", Epoch: 1}.Key()
		s := turnlog.WholeSession{Session: turnlog.Session{Key: key, Agent: "main", Turns: turns}}
		for n := range turns {
			at = at.Add(time.Millisecond)
			last = store.NewIDAfter(last, at)
			user, _ := json.Marshal(map[string]any{"said": []any{map[string]any{"event": last, "text": fmt.Sprintf("Question %d of %s, about the lighthouse", n, conversation), "at": at}}})
			model, _ := json.Marshal(map[string]any{"message": map[string]any{"role": "assistant",
				"text": fmt.Sprintf("Answer **%d** has a list:\n\n- one `code`\n- two\n\nand [a link](https://x.example/%d).", n, n)}})
			s.Turns = append(s.Turns, turnlog.SessionTurn{
				Turn: turnlog.Turn{
					ID: last, Session: key, Agent: "main", Channel: "web", Conversation: message.Conversation{ID: conversation, Kind: message.DM}, Sender: "web:owner",
					State: turnlog.TurnDone, Started: at, Ended: at,
				},
				Steps: []turnlog.Step{{Turn: last, Kind: turnlog.StepUser, Data: user, At: at}, {Turn: last, Seq: 1, Kind: turnlog.StepModel, Data: model, At: at}},
			})
		}
		s.Session.Last = at
		return s
	}
	var all []turnlog.WholeSession
	for i := range conversations - 1 {
		all = append(all, session(fmt.Sprintf("c%d", i), 1))
	}
	all = append(all, session(long, messages/2))
	for part := range slices.Chunk(all, 500) {
		if err := b.store.PutSessions(b.t.Context(), part); err != nil {
			b.t.Fatal(err)
		}
	}
}

// change lets n things change: conversations and lists, and the answer that streams in the long conversation.
func (b *busy) change(n int) {
	kinds := store.ChangeKinds()
	for range n {
		b.turns++
		kind := kinds[b.turns%len(kinds)]
		if kind == store.People || kind == store.SignIns || b.turns%2 == 0 {
			kind = store.Conversations
		}
		b.feed.Note(kind, fmt.Sprint("web/c", rand.IntN(manyConversations)))
		e := message.Event{Kind: message.TextDelta, Channel: "web", Conversation: long, Turn: fmt.Sprint("live", b.turns/100), Agent: "main", Text: "word "}
		switch b.turns % 100 {
		case 0:
			e.Kind, e.Text = message.TurnStarted, ""
		case 98:
			e.Kind, e.Key, e.Text = message.ReplyReady, "reply"+e.Turn, "All the words."
		case 99:
			e.Kind, e.Text = message.TurnDone, ""
		}
		b.hub.Publish(e)
	}
}

// changing lets things change until stop is called.
func (b *busy) changing() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				b.change(1)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

// TestBeyondTheList opens a conversation that the list does not reach, as a search does: it has its title, and all that can be done with it.
func TestBeyondTheList(t *testing.T) {
	window := browser(t)
	d := openBusy(t, 1_000, 100)
	p := visit(t, window, d.fixture)
	p.until(`document.querySelectorAll("#conversations li").length === 100`)
	p.eval(`location.hash = "#/web/c17"`)
	p.until(`document.querySelector("#title").textContent === "Question 0 of c17, about the lighthouse" && !document.querySelector("#actions").hidden`)
	p.click("#delete")
	p.until(`document.querySelector("#removal-what").textContent.includes("(1 answer)")`)
	p.click("#keep")
	p.eval(`location.hash = "#/web/nobody"`)
	p.until(`document.querySelector("#title").textContent === "New conversation" && document.querySelector("#delete").hidden`)
}

// TestManyTabs: a browser makes six connections to a host. Tabs that nobody looks at leave theirs to others, and catch up when they are looked at.
func TestManyTabs(t *testing.T) {
	window := browser(t)
	d := open(t, gatewaytest.Demo)
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	changes := d.follow(s)
	var tabs []pageDriver
	look := func(p pageDriver, state string) {
		p.eval(`(() => { Object.defineProperty(document, "visibilityState", { configurable: true, value: "` + state + `" }); document.dispatchEvent(new Event("visibilitychange")); })()`)
	}
	for range 8 {
		p := visit(t, window, d)
		p.eval(`location.hash = "today"`)
		p.until(`document.querySelector("#room h1")?.textContent === "Today"`)
		look(p, "hidden")
		tabs = append(tabs, p)
	}
	d.backend.Knock(gateway.AccessEntry{Sender: "irc:eve", Name: "Eve", State: "open", Code: "123456"})
	changes.Note(store.People, "irc:eve")
	first := tabs[0]
	first.want(`Boolean(document.querySelector("#room a[href='#people']"))`, "false")
	look(first, "visible")
	first.until(`document.querySelector("#room a[href='#people']")`)
	first.want(`document.body.classList.contains("unreachable")`, "false")
}

// clicks has answered(do, shows): the milliseconds from a moment at which a person does something, however busy the page is then, to the end of the frame
// that shows the answer.
const clicks = `(() => {
	window.answered = (act, shows) => new Promise((resolve, reject) => {
		const at = performance.now() + 30 + Math.random() * 70;
		setTimeout(() => {
			act();
			const look = () => {
				if (shows()) setTimeout(() => resolve(performance.now() - at));
				else if (performance.now() - at > 20000) reject(new Error("never shown: " + shows));
				else requestAnimationFrame(look);
			};
			requestAnimationFrame(look);
		}, at - performance.now());
	});
	window.one = (s) => document.querySelector(s);
	window.all = (s) => [...document.querySelectorAll(s)];
	return "";
})()`

// BenchmarkConsole uses the console of a busy host. It reports the times from a click to the answer, and what ten minutes of events leave behind in the tab.
func BenchmarkConsole(b *testing.B) {
	window := browser(b)
	d := openBusy(b, manyConversations, manyMessages)
	p := visit(b, window, d.fixture)
	p.eval(clicks)
	p.until(`document.querySelectorAll("#conversations li").length === 100`)
	stop := d.changing()
	defer func() { stop() }()
	open := `document.querySelector("#scroll").checkVisibility() && one("#connection").className.includes("connected")`
	uses := []struct{ name, act, shows string }{
		{"open a conversation", `all("#conversations button")[1 + Math.floor(Math.random() * 90)].click()`,
			open + ` && location.hash === "#/" + one("#conversations [aria-current]")?.dataset.key.replace(":", "/") && one("#title").textContent === one(".bubble")?.textContent.slice(0, 60)`},
		{"open the long conversation", `one("[data-key='web:long']").click()`, open + ` && all(".bubble").length >= 50 && all(".bubble").at(-1).textContent.includes("of long")`},
		{"type in the box", `(() => { const f = one("#draft"); f.value += "x"; f.dispatchEvent(new Event("input", {bubbles: true})); })()`, `true`},
		{"scroll up", `one("#scroll").scrollTop = 0`, `one("#scroll").scrollTop === 0`},
		{"show earlier messages", `one("#show-earlier").click()`, `all(".bubble").length >= 100`},
		{"open a menu", `one("#actions summary").click()`, `one("#share").checkVisibility()`},
		{"close it", `one("#actions summary").click()`, `!one("#share").checkVisibility()`},
		{"see the status", `one("#open-status").click()`, `one("#status").open`},
		{"close it again", `one("#close-status").click()`, `!one("#status").open`},
		{"search", `(() => { one("#hits").replaceChildren(); one("#search").value = "lighthouse " + Math.floor(Math.random() * 1000); one("#search-form").requestSubmit(); })()`,
			`one("#results").checkVisibility() && all("#hits li").length > 0`},
		{"end the search", `(() => { one("#search").value = ""; one("#search-form").requestSubmit(); })()`, `one("#lists").checkVisibility()`},
		{"go to the console", `one("#to-rooms").click()`, `one("#room h1")?.textContent === "Today" && one("#room .room-notice")`},
		{"go to the timeline", `one("#room-side a[href='#timeline']").click()`, `location.hash === "#timeline" && all("#room tbody tr").length >= 50`},
		{"go to the people", `one("#room-side a[href='#people']").click()`, `one("#room h1").textContent === "People" && !one("#room").textContent.includes("Loading")`},
		{"go back to the chat", `one("#to-chat").click()`, open},
	}
	times := map[string][]float64{}
	for b.Loop() {
		for _, u := range uses {
			times[u.name] = append(times[u.name], p.number(`answered(() => `+u.act+`, () => `+u.shows+`)`))
		}
	}
	var every []float64
	for part := range slices.Chunk(uses, 4) { // a benchmark may have ten lines
		var said []string
		for _, u := range part {
			list := times[u.name]
			every = append(every, list...)
			said = append(said, fmt.Sprintf("%s: p50 %.0f, p95 %.0f ms", u.name, portion(list, 50), portion(list, 95)))
		}
		b.Log(strings.Join(said, "; "))
	}
	b.ReportMetric(portion(every, 50), "p50-ms")
	b.ReportMetric(portion(every, 95), "p95-ms")
	b.ReportMetric(0, "ns/op")
	stop()
	stop = func() {}

	p.eval(`one("[data-key='web:long']").click()`)
	p.until(open + ` && all(".bubble").length >= 50`)
	d.settle(p)
	before, nodes := p.memory()
	for range 10 * 60 * perSecond / 10 { // ten times as fast
		d.change(10)
		time.Sleep(time.Second / perSecond)
	}
	d.settle(p)
	after, more := p.memory()
	b.Logf("after ten minutes of events: %.1f MB, was %.1f MB; %d nodes, were %d", after/1e6, before/1e6, more, nodes)
	b.ReportMetric(before/1e6, "before-MB")
	b.ReportMetric(after/1e6, "after-MB")
	if after > 2*before {
		b.Errorf("the tab grows from %.1f to %.1f MB", before/1e6, after/1e6)
	}
}

// settle waits until the page has shown what was published before.
func (b *busy) settle(p pageDriver) {
	title := fmt.Sprint("settled ", b.turns)
	if err := b.store.SetTitle(b.t.Context(), turnlog.Title{Channel: "web", Conversation: long, Text: title}); err != nil {
		b.t.Fatal(err)
	}
	p.until(`one("#title").textContent === ` + jsString(title))
}

// memory returns the bytes that live in the page's heaps after a collection, and the number of its nodes.
func (p pageDriver) memory() (bytes float64, nodes int64) {
	p.t.Helper()
	for range 3 { // what one collection finalizes, the next one frees
		if _, err := chromedp.Call(p.ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			p.fatal("collect garbage: %v", err)
		}
	}
	heap, err := chromedp.Call(p.ctx, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		p.fatal("read the heap: %v", err)
	}
	counters, err := chromedp.Call(p.ctx, memory.GetDOMCounters, cdp.Empty{})
	if err != nil {
		p.fatal("count nodes: %v", err)
	}
	return heap.UsedSize + heap.EmbedderHeapUsedSize + heap.BackingStorageSize, counters.Nodes
}

// portion is the value that a percentage of the list does not exceed.
func portion(list []float64, percent int) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[min(len(list)*percent/100, len(list)-1)]
}
