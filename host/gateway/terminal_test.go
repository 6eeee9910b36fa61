package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
)

// terminal opens the WebSocket of a terminal and sends the first frame, if there is one.
func (d *fixture) terminal(hello string, protocols ...string) *websocket.Conn {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://"+d.server.Addr().String()+"/api/v1/sandboxes/abc/terminal", &websocket.DialOptions{
		Subprotocols: protocols, HTTPClient: &http.Client{Transport: &http.Transport{}},
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.CloseNow() })
	if hello != "" {
		if err := conn.Write(ctx, websocket.MessageText, []byte(hello)); err != nil {
			d.t.Fatal(err)
		}
	}
	return conn
}

// frame reads a text frame of a terminal; without one it says how the socket was closed.
func frame(t *testing.T, conn *websocket.Conn) gateway.TerminalFrame {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, data, err := conn.Read(ctx)
	if err != nil {
		return gateway.TerminalFrame{Type: "closed", Message: err.Error()}
	}
	var f gateway.TerminalFrame
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return f
}

func TestTerminalProtocol(t *testing.T) {
	d, host := open(t, gatewaytest.Demo), &boxes{}
	d.with(func(f *gateway.Backend) { f.Sandboxes = host })
	hello := func(token, rows string) string {
		return fmt.Sprintf(`{"type":"hello","token":%q,"rows":%s,"cols":80}`, token, rows)
	}
	good := hello(d.token(), "24")
	for name, c := range map[string]struct{ hello, code, says string }{
		"a wrong token":        {hello("wrong", "24"), gateway.CodeUnauthorized, "token is wrong"},
		"no token":             {`{"type":"hello","rows":24,"cols":80}`, gateway.CodeBadRequest, "hello with token"},
		"a long token":         {hello(strings.Repeat("x", 300), "24"), gateway.CodeBadRequest, "too long"},
		"no rows":              {hello(d.token(), "0"), gateway.CodeBadRequest, "from 1 to 1000"},
		"too many rows":        {hello(d.token(), "1001"), gateway.CodeBadRequest, "from 1 to 1000"},
		"more rows than fit":   {hello(d.token(), "99999999"), gateway.CodeBadRequest, "decode frame"},
		"another type":         {strings.Replace(good, "hello", "resize", 1), gateway.CodeBadRequest, "hello with token"},
		"a size alone":         {`{"type":"resize","rows":24,"cols":80}`, gateway.CodeBadRequest, "first frame must be hello"},
		"a field twice":        {strings.Replace(good, `{`, `{"type":"hello",`, 1), gateway.CodeBadRequest, "repeated"},
		"a field too many":     {strings.Replace(good, `{`, `{"by":"web:owner",`, 1), gateway.CodeBadRequest, "hello with token"},
		"no JSON":              {"hello", gateway.CodeBadRequest, "not a JSON object"},
		"something behind":     {good + "{}", gateway.CodeBadRequest, "something follows"},
		"a script of the page": {"<img>", gateway.CodeBadRequest, "not a JSON object"},
	} {
		if f := frame(t, d.terminal(c.hello, gateway.TerminalProtocol)); f.Type != "error" || f.Code != c.code || !strings.Contains(f.Message, c.says) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := frame(t, d.terminal("")); f.Type != "closed" || !strings.Contains(f.Message, gateway.TerminalProtocol) {
		t.Errorf("without the subprotocol: %+v", f)
	}
	conn := d.terminal(good, gateway.TerminalProtocol)
	if f := frame(t, conn); f.Type != "ready" {
		t.Fatalf("opened: %+v", f)
	}
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(good)); err != nil {
		t.Fatal(err)
	}
	if f := frame(t, conn); f.Code != gateway.CodeBadRequest || !strings.Contains(f.Message, "hello comes once") {
		t.Errorf("hello twice: %+v", f)
	}
	// One more than may be open is refused; when one ends there is room again.
	_ = conn.CloseNow()
	room := func() *websocket.Conn {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			conn := d.terminal(good, gateway.TerminalProtocol)
			f := frame(t, conn)
			if f.Type == "ready" {
				return conn
			}
			_ = conn.CloseNow()
			if time.Now().After(deadline) {
				t.Fatalf("no room after one has ended: %+v", f)
			}
		}
	}
	var all []*websocket.Conn
	for range 16 {
		all = append(all, room())
	}
	if f := frame(t, d.terminal(good, gateway.TerminalProtocol)); f.Code != gateway.CodeLimited {
		t.Errorf("one too many: %+v", f)
	}
	_ = all[0].CloseNow()
	room()
	// The end of the host ends them all, with a word.
	go d.stop()
	if f := frame(t, all[1]); f.Type != "closed" || !strings.Contains(f.Message, "shutting down") {
		t.Errorf("the host has ended: %+v", f)
	}
	d.stop()
}

// TestDownloadedNamesAreHarmless: a program has chosen the name of a file.
func TestDownloadedNamesAreHarmless(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	d.with(func(f *gateway.Backend) { f.Sandboxes = &boxes{} })
	status, header, body := d.ask(request{path: "/api/v1/sandboxes/abc/file?path=x", header: map[string]string{"Authorization": "Bearer TOKEN"}})
	if status != 200 || body != "<script>" || header.Get("Set-Cookie") != "" {
		t.Errorf("%d %q %v", status, body, header)
	}
	for name, want := range map[string]string{
		"Content-Disposition": `attachment; filename="_<a>__Set-Cookie: x"`, "Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if status, _, _ := d.ask(request{path: "/api/v1/sandboxes/abc/file?path=x"}); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
}
