package preview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// world is what previews depend on, in memory: sandboxes box-0, box-1 ... in which "hello" is served.
type world struct {
	mu     sync.Mutex
	live   []sandbox.Living
	gone   map[string]bool
	out    map[message.SenderKey]bool // signed out
	role   map[message.SenderKey]string
	halted string
	thrown chan struct{}
	rows   []consent.AuditRow
	broken error // of the audit
}

func (w *world) Live() []sandbox.Living { return w.live }

func (w *world) Box(id string) (Box, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone[id] {
		return nil, machine.ErrNotFound
	}
	return box{}, nil
}

func (w *world) Why() string             { w.mu.Lock(); defer w.mu.Unlock(); return w.halted }
func (w *world) Thrown() <-chan struct{} { return w.thrown }

func (w *world) Again(c gateway.Caller) (gateway.Caller, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if role := w.role[c.Sender]; role != "" {
		c.Role = role
	}
	return c, !w.out[c.Sender]
}

func (w *world) AddAudit(_ context.Context, rows []consent.AuditRow) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows = append(w.rows, rows...)
	return w.broken
}

func (w *world) ended() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rows {
		if r.Kind == consent.AuditPreviewEnd {
			return r.Detail
		}
	}
	return ""
}

type box struct{}

func (box) Dial(context.Context, uint16) (net.Conn, error) {
	here, inside := net.Pipe()
	go func() {
		defer inside.Close()
		buf := make([]byte, 64<<10)
		if _, err := inside.Read(buf); err == nil {
			_, _ = io.WriteString(inside, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
		}
	}()
	return here, nil
}

func (box) Listening(context.Context) ([]uint16, bool, error) { return []uint16{3000}, false, nil }

var (
	zoe = gateway.Caller{Sender: "web:owner", Role: route.Owner}
	ann = gateway.Caller{Sender: "tg:ann", Role: route.Member, SignIn: "s1"}
	bob = gateway.Caller{Sender: "tg:bob", Role: route.Guest, SignIn: "s2"}
)

// newWorld returns a running service with a sandbox for each session.
func newWorld(t *testing.T, origin string, sessions ...message.WorkspaceKey) (*world, *Service) {
	t.Helper()
	w := &world{gone: map[string]bool{}, out: map[message.SenderKey]bool{}, role: map[message.SenderKey]string{}, thrown: make(chan struct{})}
	for i, s := range sessions {
		w.live = append(w.live, sandbox.Living{ID: fmt.Sprintf("box-%d", i), Session: s})
	}
	s, err := New(Config{Sandboxes: w, Halted: w, People: w, Audit: w, Origin: origin, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.Listen(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7351})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return w, s
}

func open(t *testing.T, s *Service, n gateway.NewPreview, by gateway.Caller) gateway.PreviewLink {
	t.Helper()
	link, err := s.OpenPreview(t.Context(), n, by)
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// get asks for an address with a cookie.
func get(t *testing.T, s *Service, address, cookie string) (status int, set string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, u.RequestURI(), nil)
	r.Host = u.Host
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	set, _, _ = strings.Cut(w.Header().Get("Set-Cookie"), ";")
	return w.Code, set
}

// A preview ends with each of its reasons, for those who look and by itself.
func TestEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(w *world)
		want string
	}{
		"time":        {nil, "its time was over"},
		"the sandbox": {func(w *world) { w.gone["box-0"] = true }, "its sandbox has ended"},
		"halt":        {func(w *world) { w.halted = "fire"; close(w.thrown) }, "the host was halted"},
		"sign-out":    {func(w *world) { w.out["tg:ann"] = true }, "the person who opened it is signed out, or may not any more"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := newWorld(t, "", "tg/dm:ann:main")
				link := open(t, s, gateway.NewPreview{Sandbox: "box-0", Port: 3000}, ann)
				_, cookie := get(t, s, link.Link, "")
				if status, _ := get(t, s, link.Address, cookie); status != http.StatusOK {
					t.Fatalf("status %d", status)
				}
				p := s.all()[0]
				time.Sleep(Usual - 2*lookPause)
				if p.ctx.Err() != nil || len(s.all()) != 1 {
					t.Fatal("it ended too early")
				}
				if tt.end == nil {
					time.Sleep(2 * lookPause)
				} else {
					w.mu.Lock()
					tt.end(w)
					w.mu.Unlock()
				}
				if status, _ := get(t, s, link.Address, cookie); status != http.StatusNotFound {
					t.Errorf("a request after the end: %d", status)
				}
				if list, _ := s.Previews(t.Context(), ann); len(list) != 0 {
					t.Errorf("listed after the end: %+v", list)
				}
				if _, err := s.LinkPreview(t.Context(), link.ID, ann); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("a link after the end: %v", err)
				}
				time.Sleep(lookPause + time.Second)
				synctest.Wait()
				if p.ctx.Err() == nil || w.ended() != tt.want {
					t.Errorf("open streams go on, or it is recorded as %q", w.ended())
				}
			})
		})
	}
}

// TestStops: the end of the host ends previews.
func TestStops(t *testing.T) {
	var w *world
	var p *preview
	t.Run("host", func(t *testing.T) {
		var s *Service
		w, s = newWorld(t, "", "web:x:main")
		open(t, s, gateway.NewPreview{Sandbox: "box-0", Port: 3000}, zoe)
		p = s.all()[0]
	})
	if p.ctx.Err() == nil || w.ended() != "the host has stopped" {
		t.Errorf("recorded as %q", w.ended())
	}
}

func TestLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := newWorld(t, "", "tg/dm:ann:main")
		link := open(t, s, gateway.NewPreview{Sandbox: "box-0", Port: 3000, Minutes: 600}, ann)
		time.Sleep(linkValid + time.Second)
		if status, cookie := get(t, s, link.Link, ""); status != http.StatusForbidden || cookie != "" {
			t.Errorf("an old link: %d %s", status, cookie)
		}
		var first, cookie string
		for i := range mostTokens + 1 { // browsers beyond the bound sign out the oldest
			again, err := s.LinkPreview(t.Context(), link.ID, ann)
			if err != nil {
				t.Fatal(err)
			}
			if _, cookie = get(t, s, again.Link, ""); i == 0 {
				first = cookie
			}
		}
		for of, want := range map[string]int{cookie: http.StatusOK, first: http.StatusForbidden, "flynn-preview=": http.StatusForbidden, "flynn-preview=x; " + cookie + "; flynn-preview=y": http.StatusOK,
			"__Host-" + cookie: http.StatusForbidden, strings.Replace(cookie, "flynn-preview", "Flynn-Preview", 1): http.StatusForbidden} {
			if status, _ := get(t, s, link.Address, of); status != want {
				t.Errorf("%s: %d, want %d", of, status, want)
			}
		}
	})
}

// TestWhose: an owner opens what he likes; others what is of their own private chats, and they see nothing of anybody else's.
func TestWhose(t *testing.T) {
	sessions := []message.WorkspaceKey{
		"tg/dm:ann:main", "console:tg:ann~talk:main", "web:main:main", "tg:ann:main", "tg/chat:ann:main", "@home:main", "console:tg:ann:main", "console:tg:ann~:main",
		"tg/dm:ann~x:main", "console:tg:bob~talk:main", "tg2/dm:ann:main", "schedule:ann:main", "", "tg/dm:?ann:main",
	}
	w, s := newWorld(t, "", sessions...)
	own := map[message.WorkspaceKey]bool{"tg/dm:ann:main": true, "console:tg:ann~talk:main": true}
	for i, session := range sessions {
		n := gateway.NewPreview{Sandbox: w.live[i].ID, Port: 3000}
		link, err := s.OpenPreview(t.Context(), n, ann)
		if own[session] != (err == nil) || err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("ann opens that of %q: %v", session, err)
		}
		if err == nil {
			for what, err := range map[string]error{"close": s.ClosePreview(t.Context(), link.ID, bob), "link": func() error { _, err := s.LinkPreview(t.Context(), link.ID, bob); return err }()} {
				if !errors.Is(err, store.ErrNotFound) {
					t.Errorf("%s by bob: %v", what, err)
				}
			}
		}
		for _, nobody := range []gateway.Caller{{}, {Role: route.Member}, {Sender: "tg:?ann", Role: route.Guest}} {
			if _, err := s.OpenPreview(t.Context(), n, nobody); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%+v opens that of %q: %v", nobody, session, err)
			}
		}
	}
	for _, v := range []struct {
		by              gateway.Caller
		ports, previews int
	}{{zoe, len(sessions), 2}, {ann, 2, 2}, {bob, 1, 0}} {
		ports, err := s.Ports(t.Context(), "", v.by)
		list, _ := s.Previews(t.Context(), v.by)
		if err != nil || len(ports) != v.ports || len(list) != v.previews {
			t.Errorf("%s sees %d sandboxes and %d previews (%v)", v.by.Sender, len(ports), len(list), err)
		}
	}
	if ports, _ := s.Ports(t.Context(), "web:main", zoe); len(ports) != 1 || ports[0].Session != "web:main:main" {
		t.Errorf("of one conversation: %+v", ports)
	}
	for range mostBy - 2 {
		open(t, s, gateway.NewPreview{Sandbox: "box-0", Port: 3000}, ann)
	}
	if _, err := s.OpenPreview(t.Context(), gateway.NewPreview{Sandbox: "box-0", Port: 3000}, ann); !errors.Is(err, store.ErrConflict) {
		t.Errorf("one more than the bound: %v", err)
	}
	list, _ := s.Previews(t.Context(), ann)
	if err := s.ClosePreview(t.Context(), list[0].ID, ann); err != nil {
		t.Error(err)
	}
	w.broken = errors.New("disk full")
	if _, err := s.OpenPreview(t.Context(), gateway.NewPreview{Sandbox: "box-0", Port: 3000}, ann); !errors.Is(err, w.broken) || len(s.all()) != mostBy-1 {
		t.Errorf("without a record: %v, %d open", err, len(s.all()))
	}
}

func TestOrigins(t *testing.T) {
	for origin, want := range map[string]string{
		"": "http://p-x.localhost:7351/", "https://*.preview.example.com": "https://p-x.preview.example.com/", "https://*.Example.com:8443": "https://p-x.example.com:8443/",
		"https://preview.example.com": "", "https://*": "", "https://*.": "", "*.example.com": "", "https://*.*.com": "", "https://a*.example.com": "", "ftp://*.example.com": "",
		"https://*.example.com/": "", "https://u@*.example.com": "", "https://*.example.com?x": "",
	} {
		s, err := New(Config{Origin: origin})
		if err != nil || want == "" {
			if (err == nil) != (want != "") {
				t.Errorf("%q: %v", origin, err)
			}
			continue
		}
		s.Listen(&net.TCPAddr{IP: net.IPv6loopback, Port: 7351})
		got := s.base.address("p-x")
		host := strings.TrimSuffix(strings.SplitAfter(got, "//")[1], "/")
		if got != want || !s.Serves(host) || !s.Serves(strings.ToUpper(host)) {
			t.Errorf("%q: %s, want %s", origin, got, want)
		}
		for _, other := range []string{"", "localhost:7351", "127.0.0.1:7351", "[::1]:7351", "example.com", "p-x", "p-x.evil.example", "q-x.localhost:7351", ".localhost", "a.p-x" + s.base.suffix, "p-x" + s.base.suffix + ".", "p-x" + s.base.suffix + ".evil.example", "p-x" + s.base.suffix + "@evil"} {
			if s.Serves(other) {
				t.Errorf("%q: %q is served", origin, other)
			}
		}
	}
}

// TestTLS: behind a proxy with TLS no page of a neighbour can set the cookie.
func TestTLS(t *testing.T) {
	_, s := newWorld(t, "https://*.preview.example.com", "tg/dm:ann:main")
	link := open(t, s, gateway.NewPreview{Sandbox: "box-0", Port: 3000}, ann)
	u, err := url.Parse(link.Link)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, u.RequestURI(), nil)
	r.Host = u.Host
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	c, err := http.ParseSetCookie(w.Header().Get("Set-Cookie"))
	if err != nil || c.Name != "__Host-flynn-preview" || !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" || c.SameSite != http.SameSiteStrictMode || c.MaxAge < 3590 || c.MaxAge > 3600 {
		t.Errorf("%+v, %v", c, err)
	}
	if status, _ := get(t, s, link.Address, "flynn-preview="+c.Value); status != http.StatusForbidden {
		t.Errorf("a cookie that a neighbour can set: %d", status)
	}
	if status, _ := get(t, s, link.Address, "__Host-flynn-preview="+c.Value); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
}

// TestLocation: what redirects become. Nothing that a program sends leads a browser that follows one to another host by mistake.
func TestLocation(t *testing.T) {
	p := &preview{Preview: gateway.Preview{Port: 3000}}
	for given, want := range map[string]string{
		"http://localhost:3000/a?b=c#d": "/a?b=c#d", "http://127.0.0.1:3000": "/", "http://[::1]:3000/x": "/x", "http://0.0.0.0:3000//evil.example/": "/evil.example/",
		"//localhost:3000/x": "/x", "http://user:pw@localhost:3000/x": "/x", "/x": "/x", "x": "x", "http://localhost:3001/x": "http://localhost:3001/x",
		"http://localhost.evil.example:3000/": "http://localhost.evil.example:3000/", "https://localhost:3000/x": "https://localhost:3000/x", "": "", "://": "://", "http://localhost:3000\\evil": "http://localhost:3000\\evil",
		"http://localhost:3000/%2f%2fevil": "/evil", "javascript:alert(1)": "javascript:alert(1)",
	} {
		h := http.Header{}
		if given != "" {
			h.Set("Location", given)
		}
		p.location(h)
		if got := h.Get("Location"); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
}
