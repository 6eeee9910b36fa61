package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// inside is a server as a hostile program may write it: its pages, answers without end, redirects, cookies, noise, and a WebSocket.
const inside = `import base64, hashlib, http.server, json, struct, sys, time
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a): pass
    def reply(self, body=b"", status=200, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for k, v in headers.items():
            for one in v if isinstance(v, list) else [v]: self.send_header(k.replace("_", "-"), one)
        self.end_headers(); self.wfile.write(body)
    seen = []
    def parse_request(self):
        ok = super().parse_request()
        if ok: H.seen.append(self.command + " " + self.path)
        return ok
    def do_POST(self):
        n = int(self.headers.get("Content-Length") or 0)
        self.reply(b"got %d" % len(self.rfile.read(n)))
    def do_GET(self):
        port = self.server.server_port
        if self.path == "/head": return self.reply(json.dumps({"host": self.headers["Host"], "all": [list(h) for h in self.headers.items()]}).encode())
        if self.path == "/seen": return self.reply("\n".join(H.seen).encode())
        if self.path == "/redirect": return self.reply(status=302, Location="http://localhost:%d//evil.example/x?y=1" % port)
        if self.path == "/away": return self.reply(status=302, Location="http://example.com/")
        if self.path == "/cookies": return self.reply(Set_Cookie=["a=1; Domain=localhost", "flynn-preview=x; Path=/", "__Host-flynn-preview=x; Secure; Path=/", "b=2; Path=/b"], Clear_Site_Data='"*"', Alt_Svc='h3=":443"', Strict_Transport_Security="max-age=9999; includeSubDomains")
        if self.path == "/big-head": return self.reply(X="x" * 200000)
        if self.path == "/noise": self.close_connection = True; return self.wfile.write(b"\x00\xff\x1b[2J garbage\r\n\r\n")
        if self.path == "/split": self.close_connection = True; return self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\nokHTTP")
        if self.path == "/short": self.close_connection = True; return self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf")
        if self.path == "/early": return self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nSet-Cookie: flynn-preview=x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        if self.path == "/events":
            self.send_response(200); self.send_header("Content-Type", "text/event-stream"); self.end_headers()
            while True: self.wfile.write(b"data: tick\n\n"); self.wfile.flush(); time.sleep(0.05)
        if self.path == "/ws":
            key = base64.b64encode(hashlib.sha1((self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
            self.send_response(101); self.send_header("Upgrade", "websocket"); self.send_header("Connection", "Upgrade"); self.send_header("Sec-WebSocket-Accept", key); self.end_headers()
            self.close_connection = True
            while True:
                head = self.rfile.read(2)
                if len(head) < 2: return
                n = head[1] & 127
                if n == 126: n = struct.unpack(">H", self.rfile.read(2))[0]
                mask = self.rfile.read(4); data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(n)))
                if head[0] & 15 == 8: return
                self.wfile.write(bytes([head[0]]) + (bytes([n]) if n < 126 else struct.pack(">BH", 126, n)) + data); self.wfile.flush()
        if self.path == "/sw.js": return self.reply(b"self.onfetch = () => {}", Content_Type="text/javascript", Service_Worker_Allowed="/")
        self.reply(open("page.html", "rb").read(), Content_Type="text/html; charset=utf-8")
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
`

// previewed is a host with a live sandbox of ann's in which programs serve ports 3000 and 4000.
type previewed struct {
	*Host
	t         *testing.T
	box       *sandbox.Session
	id        string
	base, key string
	path      string // of the configuration
	stop      func()
}

// newPreviewed starts one with further keys of [gateway].
func newPreviewed(t *testing.T, listen, more string) *previewed {
	t.Helper()
	image := sandboxtest.Engine(t).Python(t)
	dir := t.TempDir()
	p := &previewed{t: t, path: filepath.Join(dir, "flynn.toml")}
	text := fmt.Sprintf("[store]\ndir = %q\n[gateway]\nlisten = %q\n%s\n[routing]\ndefault_agent = \"main\"\n[agent_configs.main]\ntool_profile = \"full\"\n"+
		"[sandbox]\nenabled = true\nimage = %q\n", filepath.Join(dir, "s"), listen, more, image)
	if err := os.WriteFile(p.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	t.Cleanup(func() {
		for _, l := range p.fleet.Live() { // with their servers they would outlast the host
			if box, err := p.fleet.LiveSession(l.ID); err == nil {
				if err := box.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		p.stop()
	})
	p.box = p.sandbox("tg/dm:ann:main")
	p.id = p.live("tg/dm:ann:main")
	return p
}

func (p *previewed) start() {
	p.t.Helper()
	h, err := New(p.t.Context(), Config{Path: p.path, Getenv: os.Getenv, Log: slog.New(slog.NewTextHandler(p.t.Output(), nil))})
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	p.Host = h
	p.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			p.t.Error(err)
		}
		p.stop = func() {}
	}
	var address string
	eventually(p.t, "the gateway is there", func() bool { address = h.URL(); return address != "" })
	u, err := url.Parse(address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.base, p.key = "http://"+u.Host, strings.TrimPrefix(u.Fragment, "token=")
}

// sandbox has two servers run in the sandbox of a session.
func (p *previewed) sandbox(session message.WorkspaceKey) *sandbox.Session {
	p.t.Helper()
	m, err := p.fleet.Sandbox(p.t.Context(), session, "")
	if err != nil {
		p.t.Fatal(err)
	}
	box := m.(*sandbox.Session)
	for name, text := range map[string]string{"serve.py": inside, "page.html": "<!doctype html><title>hello from inside</title>hello"} {
		if err := box.WriteFile(p.t.Context(), name, []byte(text), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, port := range []string{"3000", "4000"} {
		if _, err := box.Start(p.t.Context(), machine.Command{Script: "exec python3 serve.py " + port}); err != nil {
			p.t.Fatal(err)
		}
	}
	eventually(p.t, "the servers listen", func() bool {
		ports, _, err := box.Listening(p.t.Context())
		return err == nil && len(ports) == 2
	})
	return box
}

func (p *previewed) live(session message.WorkspaceKey) string {
	for _, l := range p.fleet.Live() {
		if l.Session == session {
			return l.ID
		}
	}
	p.t.Fatalf("no live sandbox of %s", session)
	return ""
}

// ask asks an operation with this machine's token.
func (p *previewed) ask(method, path string, body, out any) int {
	p.t.Helper()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			p.t.Fatal(err)
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.base+"/api/v1"+path, content)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if out != nil && res.StatusCode/100 == 2 {
		if err := json.Unmarshal(text, out); err != nil {
			p.t.Fatal(err)
		}
	}
	if res.StatusCode/100 != 2 {
		p.t.Logf("%s %s: %s", method, path, text)
	}
	return res.StatusCode
}

func (p *previewed) open(port int) gateway.PreviewLink {
	p.t.Helper()
	var link gateway.PreviewLink
	if status := p.ask(http.MethodPost, "/previews", gateway.NewPreview{Sandbox: p.id, Port: port}, &link); status != http.StatusCreated {
		p.t.Fatalf("open: %d", status)
	}
	return link
}

// visitor is a browser without a page: names below localhost are this machine, as browsers have it.
type visitor struct {
	t *testing.T
	*http.Client
}

func newVisitor(t *testing.T) visitor {
	jar, _ := cookiejar.New(nil) // never fails
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(address)
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return visitor{t, &http.Client{Jar: jar, Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// get asks for a page with some headers.
func (v visitor) get(address string, headers ...string) (int, string, http.Header) {
	v.t.Helper()
	return v.send(http.MethodGet, address, nil, headers...)
}

func (v visitor) send(method, address string, body io.Reader, headers ...string) (int, string, http.Header) {
	v.t.Helper()
	hints := &httptrace.ClientTrace{Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
		v.t.Errorf("%s: %d %v before the answer", address, status, h)
		return nil
	}}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(v.t.Context(), hints), method, address, body)
	if err != nil {
		v.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := v.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text), res.Header
}

func (p *previewed) audit() (kinds []string) {
	p.t.Helper()
	rows, err := p.store.ListAudit(p.t.Context(), consent.AuditFilter{})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, r := range rows {
		kinds = append(kinds, r.Kind+" "+r.Actor+" "+r.Detail)
	}
	return kinds
}

// TestPreview opens a preview of a real server, and does what browsers do and hostile ones try.
func TestPreview(t *testing.T) {
	p := newPreviewed(t, "127.0.0.1:0", "")
	var ports []gateway.SandboxPorts
	if p.ask(http.MethodGet, "/ports", nil, &ports); len(ports) != 1 || fmt.Sprint(ports[0].Ports) != "[3000 4000]" || ports[0].Sandbox != p.id {
		t.Fatalf("ports: %+v", ports)
	}
	for _, bad := range []struct{ port, status int }{{0, 422}, {-1, 422}, {65536, 422}, {5999, 409}} {
		if status := p.ask(http.MethodPost, "/previews", map[string]any{"sandbox": p.id, "port": bad.port}, nil); status != bad.status {
			t.Errorf("port %d: %d, want %d", bad.port, status, bad.status)
		}
	}
	link, other := p.open(3000), p.open(4000)
	if got := link.Address; !strings.HasPrefix(got, "http://p-") || !strings.HasSuffix(got, ".localhost:"+strings.TrimPrefix(p.base, "http://127.0.0.1:")+"/") {
		t.Errorf("address %s", got)
	}
	at := strings.TrimSuffix(link.Address, "/")
	v := newVisitor(t)

	t.Run("nobody is in without a link", func(t *testing.T) {
		for _, path := range []string{"/", "/head", "/.flynn/sign-in", "/.flynn/sign-in?code=", "/.flynn/sign-in?code=WRONG", "/.flynn/x", "//", "/../x"} {
			status, text, h := v.get(at + path)
			if status != http.StatusForbidden || strings.Contains(text, "hello") || h.Get("Set-Cookie") != "" || h.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %d %s %v", path, status, text, h)
			}
		}
		if status, _, _ := v.get(at+"/", "Authorization", "Bearer "+p.key); status != http.StatusForbidden {
			t.Errorf("this machine's token opens a preview: %d", status)
		}
	})
	t.Run("a link is good once, for one browser", func(t *testing.T) {
		status, text, h := v.get(link.Link, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
		cookie := h.Get("Set-Cookie")
		if status != http.StatusOK || !strings.Contains(text, "url=/") || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") || strings.Contains(cookie, "Domain") {
			t.Fatalf("%d %s %v", status, text, h)
		}
		if status, text, _ := newVisitor(t).get(link.Link); status != http.StatusForbidden || !strings.Contains(text, "used already") {
			t.Errorf("again: %d %s", status, text)
		}
		if status, _, _ := v.get(link.Link); status != http.StatusOK {
			t.Errorf("the same browser again: %d", status)
		}
		if status, text, _ := v.get(at + "/"); status != http.StatusOK || !strings.Contains(text, "hello") {
			t.Errorf("%d %s", status, text)
		}
		if status, _, _ := v.get(strings.TrimSuffix(other.Address, "/") + "/"); status != http.StatusForbidden {
			t.Errorf("the other preview: %d", status)
		}
	})
	t.Run("the program sees its own address, and nothing of Flynn's", func(t *testing.T) {
		_, text, _ := v.get(at+"/head", "Origin", at, "Referer", at+"/page?x=1", "Cookie", "mine=1", "Authorization", "Bearer "+p.key, "X-Forwarded-For", "9.9.9.9", "Forwarded", "for=9.9.9.9", "Proxy-Authorization", "x")
		var saw struct {
			Host string
			All  [][2]string
		}
		if err := json.Unmarshal([]byte(text), &saw); err != nil {
			t.Fatal(text, err)
		}
		h := http.Header{}
		for _, one := range saw.All {
			h.Add(one[0], one[1])
		}
		if saw.Host != "localhost:3000" || h.Get("Origin") != "http://localhost:3000" || h.Get("Referer") != "http://localhost:3000/page?x=1" || h.Get("Cookie") != "mine=1" {
			t.Errorf("it sees %s", text)
		}
		if h.Get("Authorization") != "" || h.Get("X-Forwarded-For") != "" || h.Get("Forwarded") != "" || strings.Contains(text, strings.TrimPrefix(at, "http://")[:28]) || strings.Contains(text, "flynn") || strings.Contains(text, p.key) {
			t.Errorf("it sees what is Flynn's: %s", text)
		}
		if _, text, _ = v.get(at+"/head", "Authorization", "Bearer its-own"); !strings.Contains(text, "its-own") {
			t.Errorf("its own token is lost: %s", text)
		}
	})
	t.Run("other pages", func(t *testing.T) {
		for name, headers := range map[string][]string{
			"another site":            {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"},
			"another preview":         {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Origin", strings.TrimSuffix(other.Address, "/")},
			"a link elsewhere":        {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
			"a sandboxed frame":       {"Origin", "null"},
			"the console":             {"Origin", p.base},
			"an old browser":          {"Origin", "http://evil.example"},
			"two origins":             {"Origin", at, "Origin", "http://evil.example"},
			"a socket of the console": {"Origin", p.base, "Upgrade", "websocket", "Connection", "Upgrade", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="},
		} {
			if status, text, _ := v.get(at+"/head", headers...); status != http.StatusForbidden {
				t.Errorf("%s: %d %s", name, status, text)
			}
		}
		again := p.relink(link.ID)
		if status, _, _ := newVisitor(t).get(again, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"); status != http.StatusForbidden {
			t.Errorf("a frame signs in: %d", status)
		}
	})
	t.Run("names", func(t *testing.T) {
		for _, host := range []string{"p-.localhost", "p-x.localhost", "x" + strings.TrimPrefix(at, "http://p-"), "p-x.p-y.localhost", "p-a.evil.example", "localhost.", "p-x.localhost.evil.example"} {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, p.base+"/", nil)
			req.Host = host
			res, err := v.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusNotFound && res.StatusCode != http.StatusForbidden {
				t.Errorf("%s: %d", host, res.StatusCode)
			}
		}
	})
	t.Run("answers", func(t *testing.T) {
		if status, _, h := v.get(at + "/redirect"); status != http.StatusFound || h.Get("Location") != "/evil.example/x?y=1" {
			t.Errorf("a redirect: %d %s", status, h.Get("Location"))
		}
		if _, _, h := v.get(at + "/away"); h.Get("Location") != "http://example.com/" {
			t.Errorf("a redirect elsewhere: %s", h.Get("Location"))
		}
		_, _, h := v.get(at + "/cookies")
		if got := h.Values("Set-Cookie"); fmt.Sprint(got) != "[a=1 b=2; Path=/b]" || h.Get("Clear-Site-Data")+h.Get("Alt-Svc")+h.Get("Strict-Transport-Security") != "" {
			t.Errorf("cookies %q, %v", got, h)
		}
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'self'") || !strings.Contains(csp, "frame-ancestors 'self'") || h.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%v", h)
		}
		for _, path := range []string{"/big-head", "/noise", "/split"} {
			if status, text, _ := v.get(at + path); status != http.StatusBadGateway || !strings.Contains(text, "no proper answer") {
				t.Errorf("%s: %d %q", path, status, text)
			}
		}
		if _, text, _ := v.get(at + "/short"); text != "half" {
			t.Errorf("a short answer: %q", text)
		}
		if status, text, h := v.get(at + "/early"); status != http.StatusOK || text != "ok" || h.Get("Set-Cookie") != "" {
			t.Errorf("hints: %d %q %v", status, text, h)
		}
		if status, text, _ := v.send(http.MethodPost, at+"/", bytes.NewReader(make([]byte, 1<<20)), "Origin", at); status != http.StatusOK || text != "got 1048576" {
			t.Errorf("a form: %d %s", status, text)
		}
	})
	t.Run("events and sockets end with the preview", func(t *testing.T) {
		third := p.open(3000)
		address := strings.TrimSuffix(third.Address, "/")
		v.get(third.Link)
		conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(address, "http")+"/ws", &websocket.DialOptions{HTTPClient: v.Client, HTTPHeader: http.Header{"Origin": {address}}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseNow()
		text := strings.Repeat("é\x00\n", 5000)
		if err := conn.Write(t.Context(), websocket.MessageBinary, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := conn.Read(t.Context()); err != nil || string(got) != text {
			t.Errorf("echo of %d bytes: %d, %v", len(text), len(got), err)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/events", nil)
		res, err := v.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.ReadFull(res.Body, make([]byte, 24)); err != nil {
			t.Errorf("two events: %v", err)
		}
		if status := p.ask(http.MethodDelete, "/previews/"+third.ID, nil, nil); status != http.StatusNoContent {
			t.Errorf("close: %d", status)
		}
		if _, err := io.ReadAll(res.Body); err == nil {
			t.Error("events ended as if they were complete")
		}
		if _, _, err := conn.Read(t.Context()); err == nil {
			t.Error("a socket outlived its preview")
		}
		if status, text, _ := v.get(address + "/"); status != http.StatusNotFound || !strings.Contains(text, "not open") {
			t.Errorf("after the end: %d %s", status, text)
		}
	})
	t.Run("the console refuses previews", func(t *testing.T) {
		for name, headers := range map[string][]string{
			"with the origin": {"Origin", at}, "same site": {"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"}, "cross site": {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"},
		} {
			for _, path := range []string{"/api/v1/status", "/api/v1/halt", "/api/v1/events", "/api/v1/socket", "/app.js", "/healthz"} {
				if status, _, h := v.get(p.base+path, append(headers, "Authorization", "Bearer "+p.key)...); status != http.StatusForbidden || h.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s, %s: %d", name, path, status)
				}
			}
		}
	})
	t.Run("the server ends", func(t *testing.T) {
		if _, err := p.box.Kill(t.Context(), "2"); err != nil {
			t.Fatal(err)
		}
		v.get(other.Link)
		if status, text, _ := v.get(other.Address); status != http.StatusBadGateway || !strings.Contains(text, "Nothing listens on port 4000") {
			t.Errorf("%d %s", status, text)
		}
	})
	t.Run("halt", func(t *testing.T) {
		if err := p.kill.Set(t.Context(), true, "fire", "web:owner"); err != nil {
			t.Fatal(err)
		}
		if status, _, _ := v.get(at + "/"); status != http.StatusNotFound {
			t.Errorf("while halted: %d", status)
		}
		if status := p.ask(http.MethodPost, "/previews", gateway.NewPreview{Sandbox: p.id, Port: 3000}, nil); status != http.StatusConflict {
			t.Errorf("open while halted: %d", status)
		}
		eventually(t, "the ends are recorded", func() bool {
			return strings.Count(strings.Join(p.audit(), "\n"), "preview_ended  the host was halted") == 2
		})
		if err := p.kill.Set(t.Context(), false, "", "web:owner"); err != nil {
			t.Fatal(err)
		}
		if status, _, _ := v.get(at + "/"); status != http.StatusNotFound {
			t.Errorf("after the halt: %d", status)
		}
		all := strings.Join(p.audit(), "\n")
		if strings.Count(all, "preview web:owner port") != 3 || strings.Count(all, "preview_ended web:owner it was closed") != 1 {
			t.Errorf("audit:\n%s", all)
		}
	})
}

// TestPreviewsEndWithTheHost: the server outlasts a restart, and the preview does not; the next host can open one on the sandbox that it adopts.
func TestPreviewsEndWithTheHost(t *testing.T) {
	p := newPreviewed(t, "127.0.0.1:0", "")
	link, v := p.open(3000), newVisitor(t)
	v.get(link.Link)
	if status, _, _ := v.get(link.Address); status != http.StatusOK {
		t.Fatal(status)
	}
	before := strings.TrimPrefix(p.base, "http://127.0.0.1")
	p.stop()
	p.start()
	eventually(t, "the sandbox is adopted", func() bool { return len(p.fleet.Live()) == 1 })
	p.id = p.live("tg/dm:ann:main")
	at := strings.Replace(link.Address, before, strings.TrimPrefix(p.base, "http://127.0.0.1"), 1)
	for _, address := range []string{at, at + ".flynn/sign-in?code=x", strings.Replace(link.Link, link.Address, at, 1)} {
		if status, text, _ := v.get(address); status != http.StatusNotFound || !strings.Contains(text, "not open") {
			t.Errorf("%s after a restart: %d %s", address, status, text)
		}
	}
	var list []gateway.Preview
	if p.ask(http.MethodGet, "/previews", nil, &list); len(list) != 0 {
		t.Errorf("listed: %+v", list)
	}
	again := p.open(3000)
	v.get(again.Link)
	if status, text, _ := v.get(again.Address); status != http.StatusOK || !strings.Contains(text, "hello") {
		t.Errorf("a new preview of the adopted sandbox: %d %s", status, text)
	}
	if all := strings.Join(p.audit(), "\n"); !strings.Contains(all, "preview_ended  the host has stopped") {
		t.Errorf("audit:\n%s", all)
	}
}

// relink makes another link.
func (p *previewed) relink(id string) string {
	p.t.Helper()
	var link gateway.PreviewLink
	if status := p.ask(http.MethodPost, "/previews/"+id+"/link", nil, &link); status != http.StatusOK {
		p.t.Fatalf("link: %d", status)
	}
	return link.Link
}

// visited is a server somewhere else.
type visited struct {
	*httptest.Server
	seen atomic.Int64
}

func newVisited(t *testing.T) *visited {
	v := &visited{}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		v.seen.Add(1)
		w.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = io.WriteString(w, "somewhere else")
	}))
	t.Cleanup(v.Close)
	return v
}
