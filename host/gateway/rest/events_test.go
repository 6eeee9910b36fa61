package rest_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/gateway/rest"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/observe/feed"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// live is a store with its feed, and the API in front of it.
type live struct {
	t      *testing.T
	dir    string
	store  *sqlite.Store
	feed   *feed.Feed
	events event.Bus
	url    string
	stop   func()
}

func startLive(t *testing.T, dir string) *live {
	t.Helper()
	l := &live{t: t, dir: dir}
	var err error
	if l.store, err = sqlite.Open(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	l.feed = feed.New(feed.Config{Store: l.store, Events: &l.events, Log: slog.New(slog.DiscardHandler)})
	backend := gatewaytest.New(nil).Subjects()
	backend.Events = l.feed
	api := rest.New(backend, "", nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by := gateway.Caller{Sender: message.SenderKey(r.Header.Get("By")), Role: r.Header.Get("Role"), SignIn: r.Header.Get("Sign-In")}
		api.ServeHTTP(w, r.WithContext(gateway.WithCaller(r.Context(), by)))
	}))
	l.url = server.URL + rest.Prefix + "/events"
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = l.feed.Run(ctx) }()
	stopped := false
	l.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		<-done
		server.Close()
		_ = l.store.Close()
	}
	t.Cleanup(l.stop)
	return l
}

// reader reads a stream.
type reader struct {
	t     *testing.T
	lines *bufio.Scanner
	last  string // id
	close func()
}

func (l *live) read(after string, by gateway.Caller) *reader {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 20*time.Second)
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, l.url, nil)
	r.Header.Set("Role", by.Role)
	r.Header.Set("By", string(by.Sender))
	r.Header.Set("Sign-In", by.SignIn)
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		l.t.Fatalf("%v %v", err, answer)
	}
	end := func() { cancel(); answer.Body.Close() }
	l.t.Cleanup(end)
	return &reader{t: l.t, lines: bufio.NewScanner(answer.Body), close: end}
}

// next returns the next event as "event data"; "" at the end.
func (r *reader) next() string {
	r.t.Helper()
	var kind, data string
	for r.lines.Scan() {
		name, value, _ := strings.Cut(r.lines.Text(), ": ")
		switch name {
		case "id":
			r.last = value
		case "event":
			kind = value
		case "data":
			data = value
		case "":
			if kind != "" {
				return kind + " " + data
			}
		}
	}
	return ""
}

func (r *reader) want(kind, id string) {
	r.t.Helper()
	if got, want := r.next(), fmt.Sprintf(`%s {"kind":%q,"id":%q}`, kind, kind, id); got != want {
		r.t.Errorf("got %s, want %s", got, want)
	}
}

func (r *reader) ready() {
	r.t.Helper()
	if got := r.next(); !strings.HasPrefix(got, "ready ") {
		r.t.Fatalf("the stream begins with %q", got)
	}
}

func (l *live) message(conversation, id, sender string) {
	l.t.Helper()
	m := message.Message{Channel: "web", EventID: id, Conversation: message.Conversation{ID: conversation}, Sender: message.Sender{ID: sender}, Text: "a\x00\"'; DROP TABLE"}
	if _, _, err := l.store.AppendInbox(l.t.Context(), m, mailbox.InboxNew, ""); err != nil {
		l.t.Fatal(err)
	}
}

var anOwner = gateway.Caller{Sender: "web:owner", Role: route.Owner}

func TestEvents(t *testing.T) {
	l := startLive(t, t.TempDir())
	r := l.read("", anOwner)
	r.ready()
	l.message("c\"1/x", "m1", "owner")
	r.want("conversations", "web/c\"1/x")
	before := r.last

	// One thing that changes often is one event, and what is not in the store is told as well.
	for i := range 50 {
		l.message("c2", fmt.Sprint("n", i), "owner")
		l.events.Publish(plugin.StateChanged{Status: plugin.Status{Name: "irc"}})
	}
	seen := map[string]int{}
	for seen[`plugins {"kind":"plugins","id":"irc"}`] == 0 || seen[`conversations {"kind":"conversations","id":"web/c2"}`] == 0 {
		seen[r.next()]++
	}
	for what, n := range seen {
		if n > 40 {
			t.Errorf("%s came %d times", what, n)
		}
	}
	r.close()

	// Changes meanwhile are seen by a reader that comes back, over a restart too.
	approve := consent.Approval{ID: "A1", Turn: "t", Session: "web:c:main", Requester: "web:ann", State: consent.ApprovalPending, Args: []byte("{}")}
	if err := l.store.AddApproval(t.Context(), approve); err != nil {
		t.Fatal(err)
	}
	l.feed.Note(store.Sandboxes, "web:c:main")
	dir := l.dir
	l.stop()
	l = startLive(t, dir)
	if err := l.store.WriteNote(t.Context(), memory.Note{Agent: "main", Key: "k", Text: "v"}, 0); err != nil {
		t.Fatal(err)
	}
	if err := l.store.SetHalt(t.Context(), turnlog.Halt{On: true}); err != nil {
		t.Fatal(err)
	}
	r = l.read(before, anOwner)
	r.ready()
	want := map[string]bool{"conversations": true, "plugins": true, "approvals": true, "sandboxes": true, "memory": true, "halt": true}
	for len(want) > 0 {
		got := r.next()
		kind, _, _ := strings.Cut(got, " ")
		if !want[kind] {
			t.Errorf("unexpected %q", got)
			break
		}
		delete(want, kind)
	}
	l.stop() // a stream does not delay the end of the host
	if got := r.next(); got != "" {
		t.Errorf("after the end: %s", got)
	}
}

func TestEventsReset(t *testing.T) {
	l := startLive(t, t.TempDir())
	for _, after := range []string{"0", "12", "9000000000000000"} { // another store's, too
		r := l.read(after, anOwner)
		r.ready()
		if got := r.next(); !strings.HasPrefix(got, "reset ") {
			t.Errorf("after %s: %q", after, got)
		}
		l.message("c"+after, "m"+after, "owner")
		r.want("conversations", "web/c"+after)
		r.close()
	}
	r := l.read("", anOwner)
	r.ready()
	for i := range 20 {
		l.message(fmt.Sprint("p", i), fmt.Sprint("p", i), "owner")
	}
	if err := l.store.PruneChanges(t.Context(), time.Time{}, 5); err != nil {
		t.Fatal(err)
	}
	again := l.read(r.last, anOwner)
	again.ready()
	if got := again.next(); !strings.HasPrefix(got, "reset ") {
		t.Errorf("after pruning: %q", got)
	}
}

func TestEventsOfOthers(t *testing.T) {
	l := startLive(t, t.TempDir())
	ann := gateway.Caller{Sender: "web:ann", Role: route.Guest, SignIn: "s1"}
	r := l.read("", ann)
	r.ready()
	l.message("secret", "m1", "owner")
	l.message("hers", "m2", "ann")
	for id, of := range map[string]message.SenderKey{"A1": "web:owner", "A2": "web:ann"} {
		a := consent.Approval{ID: id, Requester: of, State: consent.ApprovalPending, Args: []byte("{}")}
		if err := l.store.AddApproval(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]bool{r.next(): true, r.next(): true}
	if !got[`conversations {"kind":"conversations","id":"web/hers"}`] || !got[`approvals {"kind":"approvals","id":"A2"}`] {
		t.Errorf("a guest sees %v", got)
	}
	l.feed.Note(store.Conversations, "web/hers") // which does not know whose it is
	r.want("conversations", "web/hers")
	l.message("hers2", "m3", "ann")
	r.want("conversations", "web/hers2")
}
