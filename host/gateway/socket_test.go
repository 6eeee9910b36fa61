package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// wire is a bare client of the protocol.
type wire struct {
	t    testing.TB
	conn *websocket.Conn
}

func (d *fixture) connect(header http.Header, protocols ...string) (*websocket.Conn, *http.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, res, err := websocket.Dial(ctx, "ws://"+d.server.Addr().String()+gateway.SocketPath, &websocket.DialOptions{
		Subprotocols: protocols, HTTPHeader: header, HTTPClient: &http.Client{Transport: &http.Transport{}},
	})
	if conn != nil {
		conn.SetReadLimit(64 << 20)
	}
	return conn, res, err
}

// dial opens a socket and says hello.
func (d *fixture) dial(channel, conversation string, more ...string) *wire {
	d.t.Helper()
	w := d.raw()
	resume := ""
	if len(more) > 0 {
		resume = fmt.Sprintf(`,"resume":%q`, more[0])
	}
	w.write(fmt.Sprintf(`{"type":"hello","token":%q,"channel":%q,"conversation":%q%s}`, d.token(), channel, conversation, resume))
	return w
}

// raw opens a socket and says nothing.
func (d *fixture) raw() *wire {
	d.t.Helper()
	conn, _, err := d.connect(nil, gateway.Subprotocol)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.CloseNow() })
	return &wire{d.t, conn}
}

func (w *wire) write(frame string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.conn.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) send(id, text string) {
	w.t.Helper()
	w.write(fmt.Sprintf(`{"type":"send","id":%q,"text":%q}`, id, text))
}

func (w *wire) next(ctx context.Context) (gateway.ServerFrame, error) {
	var f gateway.ServerFrame
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, data, err := w.conn.Read(ctx)
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	return f, err
}

// await reads until a frame that is wanted, and returns it.
func (w *wire) await(wanted func(gateway.ServerFrame) bool) gateway.ServerFrame {
	w.t.Helper()
	var seen []string
	for {
		f, err := w.next(context.Background())
		if err != nil {
			w.t.Fatalf("the frame never came: %v; there were %v", err, seen)
		}
		if wanted(f) {
			return f
		}
		seen = append(seen, f.Type)
	}
}

func ofType(kind string) func(gateway.ServerFrame) bool {
	return func(f gateway.ServerFrame) bool { return f.Type == kind }
}

func event(kind message.EventKind) func(gateway.ServerFrame) bool {
	return func(f gateway.ServerFrame) bool { return f.Event != nil && f.Event.Kind == kind }
}

func TestSocketConversation(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	d.backend.Info.Version = "1.2.3"
	w := d.dial("web", "main")
	welcome, err := w.next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if welcome.Type != gateway.TypeWelcome || !welcome.Write || welcome.Conversation != "main" || welcome.Version != "1.2.3" {
		t.Errorf("first frame %+v", welcome)
	}
	if h := w.await(ofType(gateway.TypeHistory)); h.Entries == nil || len(h.Entries) != 0 || h.Resumed {
		t.Errorf("history %+v", h)
	}
	w.send("id-1", "hello there")
	var text strings.Builder
	accepted, reply := false, ""
	for reply == "" || !accepted {
		f, err := w.next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		accepted = accepted || f.Type == gateway.TypeAccepted && f.ID == "id-1"
		if f.Event == nil {
			continue
		}
		switch f.Event.Kind {
		case message.TextDelta:
			text.WriteString(f.Event.Text)
		case message.ReplyReady:
			reply = f.Event.Text
		}
	}
	if want := "You said: hello there"; reply != want || text.String() != want {
		t.Errorf("streamed %q, replied %q", text.String(), reply)
	}
}

// The same event id is answered once, on one socket, on two, and over HTTP.
func TestSocketSendsOnce(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	w := d.dial("web", "main")
	for range 3 {
		w.send("same", "hello")
		w.await(ofType(gateway.TypeAccepted))
	}
	v := d.dial("web", "main")
	v.send("same", "hello")
	v.await(ofType(gateway.TypeAccepted))
	v.send("other", "bye")
	v.await(func(f gateway.ServerFrame) bool { return f.Event != nil && f.Event.Text == "You said: bye" })
	v.write(`{"type":"history"}`)
	h := v.await(func(f gateway.ServerFrame) bool { return f.Type == gateway.TypeHistory && len(f.Entries) > 0 })
	if len(h.Entries) != 4 {
		t.Errorf("%d entries, want 2 messages and 2 replies: %+v", len(h.Entries), h.Entries)
	}
}

func TestSocketResumes(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	w := d.dial("terminal", "main")
	w.send("one", "first")
	w.await(event(message.TurnDone))
	tests := []struct {
		resume  string
		entries int
		resumed bool
	}{{"one", 1, true}, {"reply-turn-0001", 0, true}, {"unknown", 2, false}}
	for _, tt := range tests {
		h := d.dial("terminal", "main", tt.resume).await(ofType(gateway.TypeHistory))
		if len(h.Entries) != tt.entries || h.Resumed != tt.resumed {
			t.Errorf("resume %q gives %d entries, resumed %v; want %d, %v", tt.resume, len(h.Entries), h.Resumed, tt.entries, tt.resumed)
		}
	}
}

func TestSocketApproval(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	w := d.dial("terminal", "main")
	other := d.dial("web", "elsewhere") // sees it too, without an event of its own
	w.send("a", "!ask rm -rf build")
	list := w.await(func(f gateway.ServerFrame) bool { return len(f.Approvals) == 1 })
	a := list.Approvals[0]
	if a.Tool != "shell" || string(a.Args) != `{"command":"rm -rf build"}` || a.Where != "host" || a.Dir == "" || len(a.Reasons) != 1 {
		t.Errorf("approval %+v", a)
	}
	other.await(func(f gateway.ServerFrame) bool { return len(f.Approvals) == 1 })
	w.write(fmt.Sprintf(`{"type":"decide","approval":%q,"grant":false}`, a.ID))
	w.await(func(f gateway.ServerFrame) bool { return f.Event != nil && f.Event.Text == "The command was not run." })
	other.await(func(f gateway.ServerFrame) bool { return f.Type == gateway.TypeApprovals && len(f.Approvals) == 0 })
	if by := d.backend.Decider(a.ID); by != "terminal:owner" {
		t.Errorf("decided by %q", by)
	}
	w.write(fmt.Sprintf(`{"type":"decide","approval":%q,"grant":true}`, a.ID))
	if e := w.await(ofType(gateway.TypeError)); e.Code != gateway.CodeConflict {
		t.Errorf("a second answer gave %q", e.Code)
	}
	w.write(`{"type":"decide","approval":"none","grant":true}`)
	if e := w.await(ofType(gateway.TypeError)); e.Code != gateway.CodeNotFound {
		t.Errorf("an unknown approval gave %q", e.Code)
	}
}

// lateList lists requests as late as the host may, when there is one.
type lateList struct{ *gatewaytest.Backend }

func (b lateList) Approvals(ctx context.Context) ([]consent.Approval, error) {
	for {
		if list, err := b.Backend.Approvals(ctx); err != nil || len(list) > 0 {
			return list, err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A request is shown behind the call that it is about, also where the socket looks at the requests by itself at that moment.
func TestSocketShowsARequestBehindItsCall(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	d.stop()
	d.cfg.Listen, d.front.Approvals = "127.0.0.1:0", lateList{d.backend}
	d.start()
	w := d.dial("web", "main")
	w.await(ofType(gateway.TypeHistory))
	w.send("a", "!ask ls")
	told := false
	w.await(func(f gateway.ServerFrame) bool {
		told = told || f.Event != nil && f.Event.Kind == message.ToolDecision
		return len(f.Approvals) == 1
	})
	if !told {
		t.Error("the request came before its call")
	}
}

func TestSocketStops(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	w := d.dial("web", "main")
	w.send("a", "!hang")
	w.await(event(message.TextDelta))
	w.write(`{"type":"stop"}`)
	if f := w.await(event(message.TurnFailed)); f.Event.Text != "the turn was stopped" {
		t.Errorf("ended with %q", f.Event.Text)
	}
}

func TestSocketReadsOtherChannels(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	m := message.Message{Channel: "irc", EventID: "1", Conversation: message.Conversation{ID: "#flynn"}, Text: "hi"}
	if err := d.backend.Submit(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	w := d.dial("irc", "#flynn")
	if f := w.await(ofType(gateway.TypeWelcome)); f.Write {
		t.Error("a channel's conversation can be written to")
	}
	w.send("a", "let me in")
	if f := w.await(ofType(gateway.TypeError)); f.Code != gateway.CodeReadOnly || f.ID != "a" {
		t.Errorf("error %+v", f)
	}
	if n := d.backend.Accepted(); n != 1 {
		t.Errorf("accepted %d messages", n)
	}
}

// An error of the store is told with the id; the message is not accepted.
func TestSocketTellsFailures(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	w := d.dial("web", "main")
	d.backend.FailSubmit(errors.New("the disk is full"))
	w.send("a", "hello")
	if f := w.await(ofType(gateway.TypeError)); f.ID != "a" || f.Code != gateway.CodeUnavailable {
		t.Errorf("error %+v", f)
	}
	d.backend.FailSubmit(nil)
	w.send("b", strings.Repeat("x", message.MaxText+1))
	if f := w.await(ofType(gateway.TypeError)); f.ID != "b" || f.Code != gateway.CodeBadRequest {
		t.Errorf("error %+v", f)
	}
	w.send("a", "hello")
	w.await(ofType(gateway.TypeAccepted)) // the socket is still there
}

// A watcher that is cut off is told so, and reads the history again.
func TestSocketResync(t *testing.T) {
	d := open(t, func(_ context.Context, turn *gatewaytest.Turn, text string) (string, error) {
		for range 20000 {
			turn.Say("many words ")
		}
		return "done", nil
	})
	d.backend.Buffer = 1
	w := d.dial("web", "main")
	w.await(ofType(gateway.TypeHistory))
	w.send("a", "go")
	w.await(ofType(gateway.TypeResync))
	w.await(func(f gateway.ServerFrame) bool {
		if f.Type != gateway.TypeHistory {
			return false
		}
		if len(f.Entries) == 2 && f.Entries[1].Text == "done" {
			return true
		}
		w.write(`{"type":"history"}`)
		return false
	})
}

func TestSocketRefuses(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	hello := fmt.Sprintf(`{"type":"hello","token":%q,"channel":"web","conversation":"main"}`, d.token())
	tests := []struct {
		name   string
		frames []string
		code   string
	}{
		{"wrong token", []string{`{"type":"hello","token":"x","channel":"web","conversation":"main"}`}, gateway.CodeUnauthorized},
		{"send before hello", []string{`{"type":"send","id":"a","text":"x"}`}, gateway.CodeUnauthorized},
		{"no token", []string{`{"type":"hello","channel":"web","conversation":"main"}`}, gateway.CodeBadRequest},
		{"self-declared role", []string{`{"type":"hello","token":"x","channel":"web","conversation":"main","role":"admin"}`}, gateway.CodeBadRequest},
		{"not JSON", []string{`hello`}, gateway.CodeBadRequest},
		{"second hello", []string{hello, hello}, gateway.CodeBadRequest},
		{"unknown type", []string{hello, `{"type":"configure"}`}, gateway.CodeBadRequest},
		{"unknown field", []string{hello, `{"type":"stop","force":true}`}, gateway.CodeBadRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := d.raw()
			w.t = t
			for _, f := range tt.frames {
				w.write(f)
			}
			if f := w.await(ofType(gateway.TypeError)); f.Code != tt.code {
				t.Errorf("error %+v, want %s", f, tt.code)
			}
			for {
				if _, err := w.next(context.Background()); websocket.CloseStatus(err) == websocket.StatusPolicyViolation {
					break
				} else if err != nil {
					t.Fatalf("ended by %v", err)
				}
			}
		})
	}
	t.Run("frame too long", func(t *testing.T) {
		w := d.raw()
		w.t = t
		w.write(`{"type":"hello","token":"` + strings.Repeat("x", gateway.MaxFrame) + `"}`)
		if _, err := w.next(context.Background()); websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
			t.Errorf("ended by %v", err)
		}
	})
	if n := d.backend.Accepted(); n != 0 {
		t.Errorf("accepted %d messages", n)
	}
}

func TestSocketHandshake(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	tests := []struct {
		name, origin, host, protocol string
		want                         int // HTTP status
	}{
		{"program", "", "", gateway.Subprotocol, 101},
		{"own page", "http://ADDR", "", gateway.Subprotocol, 101},
		{"foreign page", "http://evil.example", "", gateway.Subprotocol, 403},
		{"sandboxed page", "null", "", gateway.Subprotocol, 403},
		{"other local server", "http://localhost:3000", "", gateway.Subprotocol, 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			if tt.origin != "" {
				h.Set("Origin", strings.ReplaceAll(tt.origin, "ADDR", d.server.Addr().String()))
			}
			conn, res, err := d.connect(h, tt.protocol)
			if conn != nil {
				defer conn.CloseNow()
			}
			if res == nil || res.StatusCode != tt.want {
				t.Errorf("answered %v (%v), want %d", res, err, tt.want)
			}
		})
	}
	t.Run("no protocol", func(t *testing.T) {
		conn, _, err := d.connect(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseNow()
		if _, err := (&wire{t, conn}).next(context.Background()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
			t.Errorf("ended by %v", err)
		}
	})
}

// Programs without the token hold as many sockets as they like and open each again that is taken from them. The owner gets in.
func TestStrangersDoNotShutTheOwnerOut(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	for range 300 {
		d.raw()
	}
	ctx, stop := context.WithCancel(context.Background())
	var crowd sync.WaitGroup
	for range 8 {
		crowd.Go(func() {
			for ctx.Err() == nil {
				conn, _, err := d.connect(nil, gateway.Subprotocol)
				if err != nil {
					continue
				}
				_, _, _ = conn.Read(ctx) // until its place is taken
				_ = conn.CloseNow()
			}
		})
	}
	for i := range 20 {
		w := d.dial("web", "main")
		w.await(ofType(gateway.TypeWelcome))
		w.send(fmt.Sprintf("m%d", i), "hello")
		w.await(ofType(gateway.TypeAccepted))
		_ = w.conn.CloseNow()
	}
	stop()
	crowd.Wait()
}

// The sockets of clients with the token are bounded, too, and the bound is said in words.
func TestSocketsAreBounded(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	for range 256 {
		d.dial("web", "main").await(ofType(gateway.TypeWelcome))
	}
	f := d.dial("web", "main").await(ofType(gateway.TypeError))
	if f.Code != gateway.CodeLimited {
		t.Errorf("one too many hears %+v", f)
	}
}

// A refused socket frees its place before it says goodbye: its client reads nothing more, and the next one gets in at once.
func TestRefusedSocketsHoldNoPlace(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	var last *wire
	for range 256 {
		last = d.dial("web", "main")
		last.await(ofType(gateway.TypeWelcome))
	}
	d.dial("web", "main").await(ofType(gateway.TypeError)) // one too many
	last.write(`{"type":"hello","token":"again","channel":"web","conversation":"main"}`)
	last.await(ofType(gateway.TypeError))
	d.dial("web", "main").await(ofType(gateway.TypeWelcome))
}
