package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
)

// request is one HTTP request of a table; "TOKEN" in a header and "ADDR" anywhere stand for the gateway's.
type request struct {
	method, path, host, body string
	header                   map[string]string
}

func (d *fixture) ask(r request) (int, http.Header, string) {
	d.t.Helper()
	addr := d.server.Addr().String()
	fill := func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(s, "TOKEN", d.token()), "ADDR", addr)
	}
	if r.method == "" {
		r.method = http.MethodGet
	}
	req, err := http.NewRequest(r.method, d.base()+r.path, strings.NewReader(r.body))
	if err != nil {
		d.t.Fatal(err)
	}
	if r.host != "" {
		req.Host = strings.ReplaceAll(fill(r.host), "PORT", addr[strings.LastIndex(addr, ":")+1:])
	}
	for k, v := range r.header {
		req.Header.Set(k, fill(v))
	}
	res, err := client().Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(body)
}

const jsonType = "application/json"

func TestGuard(t *testing.T) {
	d := open(t, gatewaytest.Demo, func(c *gateway.Config) { c.Origins = []string{"https://Flynn.example.net", "http://localhost:9000/"} })
	bearer := "Bearer TOKEN"
	with := func(kv ...string) map[string]string {
		h := map[string]string{"Authorization": bearer}
		for i := 0; i < len(kv); i += 2 {
			h[kv[i]] = kv[i+1]
		}
		return h
	}
	tests := []struct {
		name string
		req  request
		want int
	}{
		{"page", request{path: "/"}, 200},
		{"script", request{path: "/app.js"}, 200},
		{"no such file", request{path: "/secrets.js"}, 404},
		{"path that climbs", request{path: "/..%2f..%2fgateway.go"}, 404},
		{"health", request{path: "/healthz"}, 200},
		{"ready", request{path: "/readyz"}, 200},
		{"status", request{path: "/api/v1/status", header: with()}, 200},
		{"status by name", request{path: "/api/v1/status", host: "localhost:PORT", header: with()}, 200},
		{"status without token", request{path: "/api/v1/status"}, 401},
		{"status with a wrong token", request{path: "/api/v1/status", header: with("Authorization", "Bearer TOKENx")}, 401},
		{"status with a basic token", request{path: "/api/v1/status", header: with("Authorization", "Basic TOKEN")}, 401},
		{"token in the query", request{path: "/api/v1/status?token=TOKEN"}, 401},
		{"deletion without token", request{method: "DELETE", path: "/api/v1/conversations/web/main"}, 401},
		{"deletion from elsewhere", request{method: "DELETE", path: "/api/v1/conversations/web/main", header: with("Origin", "http://evil.example")}, 403},
		{"metrics", request{path: "/metrics", header: with()}, 200},
		{"metrics without token", request{path: "/metrics"}, 401},
		{"write to the page", request{method: "POST", path: "/"}, 405},

		{"rebound name", request{path: "/", host: "evil.example:PORT"}, 403},
		{"rebound name at health", request{path: "/healthz", host: "evil.example:PORT"}, 403},
		{"other port", request{path: "/", host: "127.0.0.1:1"}, 403},
		{"no port", request{path: "/", host: "127.0.0.1"}, 403},
		{"other loopback name", request{path: "/", host: "127.0.0.1.nip.example:PORT"}, 403},
		{"zero address", request{path: "/", host: "0.0.0.0:PORT"}, 403},
		{"configured host", request{path: "/", host: "flynn.example.net"}, 200},
		{"configured host in capitals", request{path: "/", host: "FLYNN.example.net"}, 200},

		{"own origin", request{path: "/api/v1/status", header: with("Origin", "http://ADDR")}, 200},
		{"configured origin", request{path: "/api/v1/status", header: with("Origin", "https://flynn.example.net")}, 200},
		{"configured origin with a port", request{path: "/api/v1/status", header: with("Origin", "http://localhost:9000")}, 200},
		{"foreign origin", request{path: "/api/v1/status", header: with("Origin", "http://evil.example")}, 403},
		{"null origin", request{path: "/api/v1/status", header: with("Origin", "null")}, 403},
		{"other scheme", request{path: "/api/v1/status", header: with("Origin", "https://ADDR")}, 403},
		{"other local port", request{path: "/api/v1/status", header: with("Origin", "http://127.0.0.1:8080")}, 403},
		{"origin and host differ", request{path: "/api/v1/status", host: "localhost:PORT", header: with("Origin", "http://ADDR")}, 403},
		{"origin with a prefix", request{path: "/api/v1/status", header: with("Origin", "http://ADDR.evil.example")}, 403},
		{"cross-site script", request{path: "/app.js", header: map[string]string{"Sec-Fetch-Site": "cross-site"}}, 403},
		{"link from elsewhere", request{path: "/", header: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}}, 200},
		{"preflight", request{method: "OPTIONS", path: "/api/v1/conversations/web/main/messages", header: map[string]string{"Origin": "http://evil.example"}}, 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, header, body := d.ask(tt.req)
			if status != tt.want {
				t.Errorf("status %d, want %d: %s", status, tt.want, body)
			}
			kept := "no-store"
			if p := tt.req.path; !strings.HasPrefix(p, "/api") && (status == http.StatusOK && (p == "/" || strings.HasSuffix(p, ".js"))) {
				kept = "no-cache" // a file of the console, which holds nobody's data
			}
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
				"Cache-Control": kept, "Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "",
			} {
				if name == "Cache-Control" && status == http.StatusNotFound {
					continue // the file server takes it off an error
				}
				if got := header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			for _, part := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'"} {
				if csp := header.Get("Content-Security-Policy"); !strings.Contains(csp, part) || strings.Contains(csp, "unsafe") {
					t.Errorf("policy %q lacks %q or is unsafe", csp, part)
				}
			}
			if strings.Contains(body, d.token()) {
				t.Error("the answer holds the token")
			}
		})
	}
}

func TestAPI(t *testing.T) {
	const good, send, here = `{"id":"a1","text":"hello"}`, "POST /conversations/web/main/messages", "/conversations/web/main"
	tests := []struct {
		name               string
		what, body, accept string // accept is the Content-Type
		want               int
		says               string
	}{
		{"send", send, good, jsonType, 202, `{"id":"a1"}`},
		{"send again", send, good, jsonType + "; charset=utf-8", 202, `{"id":"a1"}`},
		{"send as a form", send, good, "text/plain", 415, "unknown content type"},
		{"send without a type", send, good, "", 400, "Content-Type"},
		{"unknown field", send, `{"id":"a2","text":"x","admin":true}`, jsonType, 422, "admin"},
		{"a field twice", send, `{"id":"a2","text":"x","text":"y"}`, jsonType, 400, "twice"},
		{"something behind", send, good + "{}", jsonType, 400, "after top-level value"},
		{"other channel", "POST /conversations/irc/main/messages", `{"id":"a3","text":"x"}`, jsonType, 403, "read_only"},
		{"bad conversation", "POST /conversations/web/a:b/messages", `{"id":"a4","text":"x"}`, jsonType, 400, "conversation must be"},
		{"bad id", send, `{"id":"","text":"x"}`, jsonType, 400, "id must be"},
		{"empty text", send, `{"id":"a5","text":" \n"}`, jsonType, 400, "text is empty"},
		{"text too long", send, `{"id":"a6","text":"` + strings.Repeat("x", 65<<10) + `"}`, jsonType, 400, "longer"},
		{"body too long", send, `{"id":"` + strings.Repeat("x", 600<<10) + `"}`, jsonType, 413, "too_large"},
		{"stop", "POST " + here + "/stop", "", "", 204, ""},
		{"stop with a body", "POST " + here + "/stop", "{}", jsonType, 400, "no body"},
		{"delete a conversation of no name", "DELETE /conversations/web/", "", "", 404, "no such path"},
		{"delete a conversation of a strange name", "DELETE /conversations/web/a%00b", "", "", 400, "characters"},
		{"delete a conversation that is not there", "DELETE /conversations/web/none", "", "", 404, "not_found"},
		{"halt for a long reason", "PUT /halt", `{"reason":"` + strings.Repeat("x", 501) + `"}`, jsonType, 422, "500"},
		{"halt", "PUT /halt", `{"reason":"it deletes mail"}`, jsonType, 204, ""},
		{"resume for a reason", "DELETE /halt", `{"reason":"so"}`, jsonType, 400, "no body"},
		{"resume", "DELETE /halt", "", "", 204, ""},
		{"decide nothing", "POST /approvals/none/decision", `{"grant":true}`, jsonType, 404, "not_found"},
		{"decide without an answer", "POST /approvals/none/decision", `{}`, jsonType, 422, "grant"},
	}
	d := open(t, gatewaytest.Demo)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := map[string]string{"Authorization": "Bearer TOKEN"}
			if tt.accept != "" {
				h["Content-Type"] = tt.accept
			}
			method, path, _ := strings.Cut(tt.what, " ")
			status, _, body := d.ask(request{method: method, path: "/api/v1" + path, body: tt.body, header: h})
			if status != tt.want || !strings.Contains(body, tt.says) {
				t.Errorf("answered %d %s, want %d with %q", status, body, tt.want, tt.says)
			}
		})
	}
	if n := d.backend.Accepted(); n != 1 {
		t.Errorf("accepted %d messages, want 1", n)
	}
	var list gateway.Page[gateway.ConversationInfo]
	_, _, body := d.ask(request{path: "/api/v1/conversations", header: map[string]string{"Authorization": "Bearer TOKEN"}})
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Items) != 1 || list.Items[0].Title != "hello" {
		t.Errorf("conversations %s (%v)", body, err)
	}
	_, _, body = d.ask(request{path: "/api/v1/conversations/web/none/entries", header: map[string]string{"Authorization": "Bearer TOKEN"}})
	if strings.TrimSpace(body) != `{"items":[]}` {
		t.Errorf("history of nothing is %s", body)
	}
}

// A client that waits elsewhere gets the answer over HTTP.
func TestDecideOverHTTP(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	w := d.dial("web", "main")
	w.send("a1", "!ask ls")
	w.await(func(f gateway.ServerFrame) bool { return len(f.Approvals) == 1 })
	auth := map[string]string{"Authorization": "Bearer TOKEN", "Content-Type": jsonType}
	var list []gateway.Approval
	_, _, body := d.ask(request{path: "/api/v1/approvals", header: auth})
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list) != 1 {
		t.Fatalf("approvals %s (%v)", body, err)
	}
	path := "/api/v1/approvals/" + list[0].ID + "/decision"
	if status, _, body := d.ask(request{method: "POST", path: path, body: `{"grant":true}`, header: auth}); status != 204 {
		t.Fatalf("answered %d %s", status, body)
	}
	if status, _, _ := d.ask(request{method: "POST", path: path, body: `{"grant":false}`, header: auth}); status != 409 {
		t.Errorf("a second answer gave %d, want 409", status)
	}
	w.await(func(f gateway.ServerFrame) bool { return f.Event != nil && f.Event.Text == "The command ran." })
	if by := d.backend.Decider(list[0].ID); by != "web:owner" {
		t.Errorf("decided by %q", by)
	}
}

func TestReady(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	d.backend.SetReady(errors.New("store /secret/path is locked"))
	status, _, body := d.ask(request{path: "/readyz"})
	if status != 503 || strings.Contains(body, "secret") {
		t.Errorf("answered %d %q, want 503 without the reason", status, body)
	}
	if status, _, _ := d.ask(request{path: "/healthz"}); status != 200 {
		t.Errorf("healthz answered %d", status)
	}
}

func TestWrongTokensAreLimited(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	wrong := request{path: "/api/v1/status", header: map[string]string{"Authorization": "Bearer nonsense"}}
	limited, asked, began := 0, 0, time.Now()
	for ; asked < 30; asked++ {
		if status, header, _ := d.ask(wrong); status == 429 && header.Get("Retry-After") != "" {
			limited++
		}
	}
	// Ten of them at once and one a second are not; a machine with other work may take seconds for the rest.
	if most := 11 + int(time.Since(began)/time.Second); asked-limited > most {
		t.Errorf("%d of %d wrong tokens were not limited, want %d or fewer", asked-limited, asked, most)
	}
	if status, _, _ := d.ask(request{path: "/api/v1/status", header: map[string]string{"Authorization": "Bearer TOKEN"}}); status != 200 {
		t.Errorf("the right token is answered %d while wrong ones are limited", status)
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	d := open(t, gatewaytest.Demo, again(t), func(c *gateway.Config) { c.Registry = reg })
	d.ask(request{path: "/healthz"})
	d.ask(request{path: "/made/up/path"})
	d.stop()
	d.start() // a second gateway over the same registry counts on
	d.ask(request{path: "/healthz"})
	_, _, body := d.ask(request{path: "/metrics", header: map[string]string{"Authorization": "Bearer TOKEN"}})
	for _, want := range []string{
		`flynn_gateway_requests_total{code="200",route="/healthz"} 2`,
		`flynn_gateway_requests_total{code="404",route="/"} 1`,
		`flynn_gateway_request_seconds_count{route="/healthz"} 2`,
		`flynn_gateway_sockets 0`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(body, "made/up") {
		t.Error("a path became a label")
	}
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		name string
		cfg  gateway.Config
		want string
	}{
		{"all interfaces", gateway.Config{Listen: "0.0.0.0:0"}, "not a loopback address"},
		{"no host", gateway.Config{Listen: ":0"}, "not a loopback address"},
		{"IPv6 all", gateway.Config{Listen: "[::]:0"}, "not a loopback address"},
		{"a name", gateway.Config{Listen: "example.com:0"}, "not a loopback address"},
		{"private network", gateway.Config{Listen: "192.168.1.1:0"}, "not a loopback address"},
		{"no port", gateway.Config{Listen: "127.0.0.1"}, "not host:port"},
		{"origin with a path", gateway.Config{Origins: []string{"http://x.example/y"}}, "not scheme://host"},
		{"any origin", gateway.Config{Origins: []string{"*"}}, "not scheme://host"},
		{"wildcard origin", gateway.Config{Origins: []string{"https://*.example"}}, "not scheme://host"},
		{"origin with a password", gateway.Config{Origins: []string{"https://a@b.example"}}, "not scheme://host"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.TokenFile = t.TempDir() + "/token"
			s, err := gateway.New(tt.cfg, gateway.Backend{})
			if err == nil {
				_ = s.Close()
				t.Fatalf("listens on %s", s.Addr())
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want %q", err, tt.want)
			}
		})
	}
}

func TestPortIsTaken(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	_, err := gateway.New(d.cfg, d.front)
	if err == nil || !strings.Contains(err.Error(), "is another flynn running?") {
		t.Fatalf("error %v", err)
	}
}

// Run returns soon after its context has ended, though a watcher reads nothing. On a machine with other work the quickest of some times
// counts.
func TestRunEnds(t *testing.T) {
	best := time.Hour
	for n := 0; n < 5 && best > 4*time.Second; n++ {
		best = min(best, timeToEnd(t))
	}
	if best > 4*time.Second {
		t.Errorf("Run took %s to end", best)
	}
}

func timeToEnd(t *testing.T) time.Duration {
	t.Helper()
	d := open(t, gatewaytest.Demo)
	silent, w := d.dial("web", "main"), d.dial("web", "main")
	silent.await(ofType(gateway.TypeHistory))
	w.await(ofType(gateway.TypeHistory))
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.stop()
	}()
	for {
		if _, err := w.next(context.Background()); websocket.CloseStatus(err) == websocket.StatusGoingAway {
			break
		} else if err != nil {
			t.Fatalf("ended by %v", err)
		}
	}
	<-done
	return time.Since(began)
}
