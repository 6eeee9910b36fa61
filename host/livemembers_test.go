package host

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
)

// The tests of this file have two hosts that listen for each other, and a model that writes its answer piece by piece.

// slowModel writes what it is given: a channel for each request, whose texts are the pieces of its answer.
type slowModel struct {
	*httptest.Server
	asked chan chan<- string
}

func newSlowModel(t testing.TB) *slowModel {
	m := &slowModel{asked: make(chan chan<- string, 100)}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		pieces := make(chan string)
		m.asked <- pieces
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case text, more := <-pieces:
				if !more {
					fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
					return
				}
				piece, err := json.Marshal(text)
				if err != nil {
					t.Error(err)
				}
				fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%s}}]}\n\n", piece)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(m.Close)
	return m
}

// livePair is a pair whose hosts listen for each other.
type livePair struct {
	*pair
	model *slowModel
}

func newLivePair(t testing.TB) *livePair {
	server := postgrestest.Start(t)
	m := newSlowModel(t)
	p := &pair{t: t, url: server.URL(server.Database(t)), clustered: "listen = \"127.0.0.1:0\"\n", model: &gatedModel{Server: m.Server}, hosts: map[string]*member{}}
	l := &livePair{p, m}
	for _, name := range []string{"a", "b"} {
		p.start(name)
	}
	return l
}

// writes waits for the next answer, and returns what writes it.
func (p *livePair) writes() chan<- string {
	p.t.Helper()
	select {
	case c := <-p.model.asked:
		return c
	case <-time.After(30 * time.Second):
		p.t.Fatal("the model is not called")
		return nil
	}
}

// livePage is a page that shows answers while they are written, as the console does.
type livePage struct {
	p    *livePair
	conn *websocket.Conn

	mu      sync.Mutex
	entries []gateway.Entry
	live    []message.Event // of the turns that run, and since
	seen    func(message.Event)
	begins  int // histories
}

// openLive opens a page of a host, and waits for its history.
func (p *livePair) openLive(m *member, conversation string) *livePage {
	p.t.Helper()
	v := &livePage{p: p, conn: p.dial(m)}
	v.put(gateway.ClientFrame{Type: gateway.TypeHello, Token: p.token(m), Channel: gateway.ChannelWeb, Conversation: conversation})
	over := make(chan struct{})
	go func() {
		defer close(over)
		for v.read() {
		}
	}()
	p.t.Cleanup(func() { v.conn.CloseNow(); <-over })
	p.eventually("the history", func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.begins > 0
	})
	return v
}

func (p *livePair) dial(m *member) *websocket.Conn {
	p.t.Helper()
	address := "ws://" + m.gateway.Addr().String() + gateway.SocketPath
	conn, _, err := websocket.Dial(p.t.Context(), address, &websocket.DialOptions{Subprotocols: []string{gateway.Subprotocol}})
	if err != nil {
		p.t.Fatal(err)
	}
	conn.SetReadLimit(-1)
	return conn
}

func (p *livePair) token(m *member) string {
	p.t.Helper()
	token, err := os.ReadFile(m.TokenFile())
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(string(token))
}

func (v *livePage) put(f gateway.ClientFrame) {
	v.p.t.Helper()
	data, err := json.Marshal(f)
	if err == nil {
		err = v.conn.Write(v.p.t.Context(), websocket.MessageText, data)
	}
	if err != nil {
		v.p.t.Fatal(err)
	}
}

func (v *livePage) read() bool {
	_, data, err := v.conn.Read(context.Background())
	var f gateway.ServerFrame
	if err != nil || json.Unmarshal(data, &f) != nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch f.Type {
	case gateway.TypeHistory:
		v.entries, v.live = f.Entries, f.Live
		v.begins++
	case gateway.TypeEvent:
		v.live = append(v.live, *f.Event)
		if v.seen != nil {
			v.seen(*f.Event)
		}
	}
	return true
}

// writing is the text that the page shows as being written, and texts the finished ones.
func (v *livePage) shown() (writing string, texts []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	keys := map[string]bool{}
	for _, e := range v.entries {
		if e.Key != "" {
			texts, keys[e.Key] = append(texts, e.Text), true
		}
	}
	for _, e := range v.live {
		switch e.Kind {
		case message.TurnStarted, message.TurnDone, message.TextReset:
			writing = ""
		case message.TextDelta:
			writing += e.Text
		case message.Said, message.ReplyReady:
			if !keys[e.Key] {
				texts, keys[e.Key] = append(texts, e.Text), true
			}
		}
	}
	return writing, texts
}

// writesOut waits until the page shows a text as being written.
func (v *livePage) writesOut(text string) {
	v.p.t.Helper()
	v.p.eventually(fmt.Sprintf("the page shows %.40q", text), func() bool { w, _ := v.shown(); return w == text })
}

// has waits until the page shows some finished texts, each once.
func (v *livePage) has(texts ...string) {
	v.p.t.Helper()
	v.p.eventually(fmt.Sprintf("the page shows %.200q", fmt.Sprint(texts)), func() bool { _, got := v.shown(); return slices.Equal(got, texts) })
}

// owned has a host own a conversation that a page of it shows.
func (p *livePair) owned(m *member, conversation string) *livePage {
	p.t.Helper()
	page := p.openLive(m, conversation)
	page.put(gateway.ClientFrame{Type: gateway.TypeSend, ID: "first", Text: "one"})
	answer := p.writes()
	answer <- "1"
	close(answer)
	page.has("one", "1")
	return page
}

// TestAnAnswerIsShownWhileAnotherHostWritesIt by pages that were open before, that come in the middle, and by clients of the API; and again by
// the others when the conversation has moved.
func TestAnAnswerIsShownWhileAnotherHostWritesIt(t *testing.T) {
	p := newLivePair(t)
	a, b := p.hosts["a"], p.hosts["b"]
	pageA, pageB := p.owned(a, "talk"), p.openLive(b, "talk")
	pageB.has("one", "1")
	pageA.put(gateway.ClientFrame{Type: gateway.TypeSend, ID: "m2", Text: "two"})
	answer := p.writes()
	text := ""
	for _, piece := range []string{"é", strings.Repeat("x", 200_000), "\n\x00 ", "🦆"} {
		answer <- piece
		text += piece
		pageA.writesOut(text)
		pageB.writesOut(text)
	}
	late := p.openLive(b, "talk")
	late.writesOut(text)
	answer <- "end"
	for _, page := range []*livePage{pageA, pageB, late} {
		page.writesOut(text + "end")
	}
	close(answer)
	for _, page := range []*livePage{pageA, pageB, late} {
		page.has("one", "1", "two", text+"end")
		page.writesOut("")
	}
	if pageB.begins > 2 {
		t.Errorf("the page loaded its history %d times", pageB.begins)
	}

	// Host a answers messages that are typed at b, and both show the commands.
	pageB.put(gateway.ClientFrame{Type: gateway.TypeSend, ID: "m3", Text: "three"})
	answer = p.writes()
	answer <- "thr"
	pageB.writesOut("thr")
	pageA.writesOut("thr")
	pageB.put(gateway.ClientFrame{Type: gateway.TypeSend, ID: "m4", Text: "/stop"})
	pageB.put(gateway.ClientFrame{Type: gateway.TypeSend, ID: "m5", Text: "/statuss"})
	for _, page := range []*livePage{pageA, pageB, late} {
		var texts []string
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("a page shows %.1000q", fmt.Sprint(texts))
			}
		})
		p.eventually("the commands are answered", func() bool {
			_, texts = page.shown()
			return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "Stopping.") }) &&
				slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, "Unknown command.") })
		})
	}

	// Each host says that the other is reached.
	p.eventually("the hosts reach each other", func() bool {
		s, err := a.cluster().Cluster(t.Context())
		return err == nil && slices.ContainsFunc(s.Hosts, func(h gateway.ClusterHost) bool { return h.Name == "b" && h.Reached == "yes" && h.Peer != "" })
	})
	a.stop()
	pageB.put(gateway.ClientFrame{Type: gateway.TypeSend, ID: "m6", Text: "six"})
	answer = p.writes()
	answer <- "at b"
	pageB.writesOut("at b")
	if o := p.owner(store.ConversationOwner("web:talk")); o != "b" {
		t.Errorf("the conversation is at %q", o)
	}
	a = p.start("a")
	again := p.openLive(a, "talk")
	again.writesOut("at b")
	answer <- " again"
	again.writesOut("at b again")
	pageB.writesOut("at b again")
	close(answer)
}

// TestAClientHearsAnAnswerOfAnotherHost, over the API that streams.
func TestAClientHearsAnAnswerOfAnotherHost(t *testing.T) {
	p := newLivePair(t)
	a, b := p.hosts["a"], p.hosts["b"]
	ask := func(m *member, text string) *bufio.Scanner {
		body := fmt.Sprintf(`{"model":"a","stream":true,"messages":[{"role":"user","content":%q}]}`, text)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+m.gateway.Addr().String()+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p.token(m))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Flynn-Session", "s")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		if answer.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(answer.Body)
			t.Fatalf("%s: %s", answer.Status, text)
		}
		return bufio.NewScanner(answer.Body)
	}
	hears := func(s *bufio.Scanner, want string) {
		t.Helper()
		got := ""
		for got != want && s.Scan() {
			var chunk struct {
				Choices []struct{ Delta struct{ Content string } }
			}
			data, is := strings.CutPrefix(s.Text(), "data: ")
			if is && data != "[DONE]" {
				if err := json.Unmarshal([]byte(data), &chunk); err != nil {
					t.Fatal(err)
				}
				for _, c := range chunk.Choices {
					got += c.Delta.Content
				}
			}
		}
		if got != want {
			t.Fatalf("the client has %q, want %q", got, want)
		}
	}
	for i, m := range []*member{a, b} { // the first claims the conversation
		streams := make(chan *bufio.Scanner, 1)
		go func() { streams <- ask(m, fmt.Sprint("question ", i)) }()
		answer := p.writes()
		answer <- "one"
		s := <-streams // the headers come with the first piece
		hears(s, "one")
		answer <- " two"
		hears(s, " two")
		close(answer)
		for s.Scan() && s.Text() != "data: [DONE]" {
			if strings.Contains(s.Text(), `"content":"`) && !strings.Contains(s.Text(), `"content":""`) {
				t.Errorf("the text comes again: %s", s.Text())
			}
		}
	}
}

// cutter is a way to a listener that is cut after so many bytes from it, a different number each time.
type cutter struct {
	net.Listener
	to string

	mu   sync.Mutex
	cuts []int // how many bytes may pass over the next connections; without any more, all
	made int
}

func newCutter(t testing.TB, to string, cuts ...int) *cutter {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: ln, to: to, cuts: cuts}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			work.Go(func() { c.serve(in) })
		}
	})
	t.Cleanup(func() { ln.Close(); work.Wait() })
	return c
}

func (c *cutter) serve(in net.Conn) {
	defer in.Close()
	c.mu.Lock()
	to, limit := c.to, int64(1<<40)
	if c.made++; len(c.cuts) > 0 {
		limit, c.cuts = int64(c.cuts[0]), c.cuts[1:]
	}
	c.mu.Unlock()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(out, in)
		out.Close()
	}()
	io.CopyN(in, out, limit)
	in.Close()
	out.Close()
	<-done
}

// through has the hosts dial one of them at another address.
func (p *livePair) through(name, address string) *member {
	p.t.Helper()
	p.clustered = "listen = \"127.0.0.1:0\"\nadvertise = \"" + address + "\"\n"
	defer func() { p.clustered = "listen = \"127.0.0.1:0\"\n" }()
	return p.start(name)
}

// TestACutConnectionLosesNothing has the way from the owner cut after each of many numbers of bytes, in the middle of an answer.
func TestACutConnectionLosesNothing(t *testing.T) {
	p := newLivePair(t)
	cuts := []int{1, 300}
	for n := 2000; n < 4000; n += 20 + rand.IntN(120) { // from within the handshake until after some pieces
		cuts = append(cuts, n)
	}
	way := newCutter(t, "", cuts...)
	p.hosts["a"].stop()
	a, b := p.through("a", way.Addr().String()), p.hosts["b"]
	way.mu.Lock()
	way.to = a.peers.Listens()
	way.mu.Unlock()
	pageA, pageB := p.owned(a, "talk"), p.openLive(b, "talk")
	pageA.put(gateway.ClientFrame{Type: gateway.TypeSend, ID: "m2", Text: "two"})
	answer := p.writes()
	whole := ""
	uncut := func() bool {
		way.mu.Lock()
		defer way.mu.Unlock()
		return len(way.cuts) == 0
	}
	for i := 0; !uncut(); i++ {
		piece := fmt.Sprintf("%d é ", i)
		answer <- piece
		whole += piece
		pageA.writesOut(whole)
		pageB.writesOut(whole) // over whichever connection
	}
	close(answer)
	pageA.has("one", "1", "two", whole)
	pageB.has("one", "1", "two", whole)
	way.mu.Lock()
	defer way.mu.Unlock()
	t.Logf("%d connections, %d histories", way.made, pageB.begins)
}

// TestAHostThatDiesWhileItWritesIsFollowedNoMore: the page shows what the store has, and then the answer of the host that takes over.
func TestAHostThatDiesWhileItWritesIsFollowedNoMore(t *testing.T) {
	p := newLivePair(t)
	a, b := p.hosts["a"], p.hosts["b"]
	pageA, pageB := p.owned(a, "talk"), p.openLive(b, "talk")
	pageA.put(gateway.ClientFrame{Type: gateway.TypeSend, ID: "m2", Text: "two"})
	dead := p.writes()
	dead <- "never to be finished"
	pageB.writesOut("never to be finished")
	began := time.Now()
	a.lease.set(true) // as by SIGKILL: nothing gets through, and its connections are cut
	a.peers.Close()
	pageB.writesOut("")
	owes(t, "back to the store", time.Since(began), time.Second)
	answer := p.writes()
	answer <- "by b"
	pageB.writesOut("by b")
	close(answer)
	pageB.has("one", "1", "two", "by b")
	if o := p.owner(store.ConversationOwner("web:talk")); o != "b" {
		t.Errorf("the conversation is at %q", o)
	}
}

// BenchmarkDeltaAtAnotherHost is how much later a page of another host shows a piece of an answer than one of the host that writes it.
func BenchmarkDeltaAtAnotherHost(b *testing.B) {
	p := newLivePair(b)
	pageA, pageB := p.owned(p.hosts["a"], "talk"), p.openLive(p.hosts["b"], "talk")
	seen := func(v *livePage) <-chan time.Time {
		times := make(chan time.Time, 1)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.seen = func(e message.Event) {
			if e.Kind == message.TextDelta {
				times <- time.Now()
			}
		}
		return times
	}
	atA, atB := seen(pageA), seen(pageB)
	pageA.put(gateway.ClientFrame{Type: gateway.TypeSend, ID: "m2", Text: "two"})
	answer := p.writes()
	var late []time.Duration
	for b.Loop() {
		answer <- "about as much as a model says at a time"
		first := <-atA
		late = append(late, (<-atB).Sub(first))
	}
	close(answer)
	slices.Sort(late)
	b.ReportMetric(float64(late[len(late)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "p99-us")
}
