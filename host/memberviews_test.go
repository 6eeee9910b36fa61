package host

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/cluster"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// openPage is a page that shows a conversation, as its socket tells it.
type openPage struct {
	p    *pair
	conn *websocket.Conn

	mu      sync.Mutex
	entries map[string]string // texts by the keys of messages and replies
	events  int
}

// show opens a page of a host.
func (p *pair) show(m *member, conversation string) *openPage {
	p.t.Helper()
	token, err := os.ReadFile(m.TokenFile())
	if err != nil {
		p.t.Fatal(err)
	}
	address := "ws://" + m.gateway.Addr().String() + gateway.SocketPath
	conn, _, err := websocket.Dial(p.t.Context(), address, &websocket.DialOptions{Subprotocols: []string{gateway.Subprotocol}})
	if err != nil {
		p.t.Fatal(err)
	}
	conn.SetReadLimit(-1)
	v := &openPage{p: p, conn: conn, entries: map[string]string{}}
	v.put(gateway.ClientFrame{Type: gateway.TypeHello, Token: strings.TrimSpace(string(token)), Channel: gateway.ChannelWeb, Conversation: conversation})
	over := make(chan struct{})
	go func() {
		defer close(over)
		for v.read() {
		}
	}()
	p.t.Cleanup(func() { conn.CloseNow(); <-over })
	return v
}

func (v *openPage) put(f gateway.ClientFrame) {
	v.p.t.Helper()
	data, err := json.Marshal(f)
	if err == nil {
		err = v.conn.Write(v.p.t.Context(), websocket.MessageText, data)
	}
	if err != nil {
		v.p.t.Fatal(err)
	}
}

// read takes the next frame as the page does: a history replaces what is shown.
func (v *openPage) read() bool {
	_, data, err := v.conn.Read(context.Background())
	var f gateway.ServerFrame
	if err != nil || json.Unmarshal(data, &f) != nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case f.Type == gateway.TypeHistory && !f.Resumed:
		v.entries = map[string]string{}
		for _, e := range f.Entries {
			v.entries[e.Key] = e.Text
		}
	case f.Type == gateway.TypeEvent && (f.Event.Kind == message.Said || f.Event.Kind == message.ReplyReady):
		v.entries[f.Event.Key] = f.Event.Text
		v.events++
	}
	return true
}

// shows waits until the page shows each of the texts once.
func (v *openPage) shows(texts ...string) {
	v.p.t.Helper()
	for _, text := range texts {
		v.p.eventually("the page shows "+text, func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			n := 0
			for _, shown := range v.entries {
				if shown == text {
					n++
				}
			}
			return n == 1
		})
	}
}

// TestPagesShowTurnsOfAnotherHost: what is said, answered and stopped through one host is shown by the pages of both, without a reload.
func TestPagesShowTurnsOfAnotherHost(t *testing.T) {
	p := newPair(t)
	a, b := p.hosts["a"], p.hosts["b"]
	pageA, pageB := p.show(a, "talk"), p.show(b, "talk")
	pageA.put(gateway.ClientFrame{Type: gateway.TypeSend, ID: "m1", Text: "said at a"})
	answer := p.call()
	pageB.shows("said at a")
	answer <- "the first answer"
	began := time.Now()
	pageB.shows("the first answer")
	took := time.Since(began)
	owes(t, "shown at the other host", took, cluster.Every)
	pageA.shows("the first answer")
	pageB.put(gateway.ClientFrame{Type: gateway.TypeSend, ID: "m2", Text: "said at b"})
	p.call() <- "the second answer"
	pageA.shows("said at b", "the second answer")
	pageB.shows("said at a", "the first answer", "said at b", "the second answer")
	if o := p.owner(store.ConversationOwner("web:talk")); o != "a" {
		t.Errorf("the conversation is at %q", o)
	}

	ended := func(state string) int {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.ended[state]
	}
	pageB.put(gateway.ClientFrame{Type: gateway.TypeSend, ID: "m3", Text: "for nothing"})
	p.call()
	pageB.put(gateway.ClientFrame{Type: gateway.TypeStop})
	p.eventually("the button stops the turn", func() bool { return ended("stopped") == 1 })
	pageB.put(gateway.ClientFrame{Type: gateway.TypeSend, ID: "m4", Text: "for nothing again"})
	p.call()
	pageB.put(gateway.ClientFrame{Type: gateway.TypeSend, ID: "m5", Text: "/stop"})
	p.eventually("the command stops the turn", func() bool { return ended("stopped") == 2 })
	pageA.shows("Stopping.")
	pageB.shows("for nothing", "for nothing again")
}

// TestWhatIsDecidedAtOneHostHoldsAtTheOther within a second.
func TestWhatIsDecidedAtOneHostHoldsAtTheOther(t *testing.T) {
	p := newPairWith(t, "[elevated]\nenabled = true\nsenders = [\"irc:ann\"]\n[agent_configs.free]\nelevated = true\n")
	a, b := p.hosts["a"], p.hosts["b"]
	ctx := t.Context()
	heard := func(what string, err error, holds func() bool) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		began := time.Now()
		p.eventually(what, holds)
		took := time.Since(began)
		owes(t, what, took, cluster.Every)
	}

	code, err := a.signIns.Offer(ctx, "irc:ann", "e1")
	if err != nil {
		t.Fatal(err)
	}
	token, in, err := b.signIns.Use(ctx, code) // the link may lead to any host
	heard("a sign-in", err, func() bool { _, ok := a.signIns.Of(token); return ok })
	heard("the end of a sign-in", a.signIns.End(ctx, in.ID, "", "web:owner"), func() bool { return !b.signIns.Lasts(in.ID) })

	zoe := pairings.Pairing{Sender: "irc:zoe", Channel: "irc", ID: "1", State: pairings.Paired, Role: "guest", Asked: time.Now(), Decided: time.Now()}
	_, err = a.store.PutPairing(ctx, zoe, "", nil)
	heard("a pairing", err, func() bool { _, paired := b.pairings.Role("irc:zoe"); return paired })
	heard("its end", b.pairings.Revoke(ctx, "irc:zoe", "web:owner"), func() bool { _, paired := a.pairings.Role("irc:zoe"); return !paired })

	said := message.Message{
		Channel: "irc", Sender: message.Sender{ID: "ann"}, Conversation: message.Conversation{ID: "ann", Kind: message.DM}, ReceivedAt: time.Now(), SentAt: time.Now(), Addressed: true,
	}
	_, refused, err := a.elevated.Begin(ctx, said, "ask", time.Minute)
	if refused != "" {
		t.Fatal(refused)
	}
	elevated := func(m *member) bool {
		_, on, err := m.elevated.Of(ctx, said.ConversationKey())
		return on && err == nil
	}
	heard("elevated mode", err, func() bool { return elevated(b) })
	_, err = b.elevated.End(ctx, said.ConversationKey(), "web:owner", "enough")
	heard("its end", err, func() bool { return !elevated(a) })

	ask := approval.Ask{Turn: "t", Session: "irc:ann:a", Requester: "irc:bob", Reach: approval.ReachSession,
		Binding: approval.Binding{Tool: "shell.exec", Args: []byte(`{}`), Agent: "a", Where: "sandbox", Sandbox: "s"}}
	request, err := a.approvals.Request(ctx, ask)
	if err == nil {
		err = b.approvals.Grant(ctx, request.ID, approval.Lease{Scope: consent.GrantSession}, "web:owner")
	}
	ask.Turn = "another"
	var grant consent.Grant
	covers := func(m *member) (covered bool) {
		grant, covered, err = m.approvals.Use(ctx, ask)
		return covered && err == nil
	}
	heard("a grant", err, func() bool { return covers(a) })
	heard("its end", b.approvals.Revoke(ctx, grant.ID, "web:owner"), func() bool { return !covers(a) })

	for i := range 5 { // wrong codes at one host and at the other
		host := []*member{a, b}[i%2]
		if _, err := host.pairings.Decide(ctx, "ABCD-EFGH", true, "irc:eve"); err == nil {
			t.Error("a wrong code is right")
		}
	}
	if _, err := b.pairings.Decide(ctx, "ABCD-EFGH", true, "irc:eve"); !errors.Is(err, pairing.ErrLocked) {
		t.Errorf("the sixth wrong code: %v", err)
	}
}

// TestWhatOneHostAdmitsCountsAtTheOther: within a renewal of each, and without a message more to the database.
func TestWhatOneHostAdmitsCountsAtTheOther(t *testing.T) {
	p := newPairWith(t, "[limits]\nsender_sessions = 3\n")
	renew := func(m *member) {
		before := m.lease.count()
		p.eventually("renewals", func() bool { return m.lease.count() >= before+3 })
	}
	renew(p.hosts["a"]) // it knows that somebody collects what it admits
	admits := func(m *member, group string) channel.Decision {
		return m.current.Admit(message.Message{
			Channel: "irc", EventID: group, Addressed: true, Sender: message.Sender{ID: "bob"}, Conversation: message.Conversation{ID: group, Kind: message.Group},
		}).Decision
	}
	for _, group := range []string{"#a", "#b"} {
		if d := admits(p.hosts["a"], group); d != channel.Allowed {
			t.Fatalf("%s: %s", group, d)
		}
	}
	renew(p.hosts["a"])
	renew(p.hosts["b"])
	if d := admits(p.hosts["b"], "#c"); d != channel.Allowed {
		t.Errorf("the third in all: %s", d)
	}
	if d := admits(p.hosts["b"], "#d"); d != channel.SenderSessions {
		t.Errorf("the fourth in all: %s", d)
	}
	if d := admits(p.hosts["b"], "#a"); d != channel.Allowed {
		t.Errorf("one that was opened at the other host: %s", d)
	}
}
