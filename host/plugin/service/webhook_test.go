package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/flynnhost/flynn/sdk/hostapi"
	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

// serve registers a path and returns its address and what ends the call.
func serve(t *testing.T, h *hostapi.Host, path string, f http.HandlerFunc) (address string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() { done <- h.Webhook(ctx, path, func(u string) { ready <- u }, f) }()
	stop = func() error { cancel(); err := <-done; done <- err; return err }
	t.Cleanup(func() { _ = stop() })
	select {
	case address = <-ready:
	case err := <-done:
		done <- err
		t.Fatalf("register %q: %v", path, err)
	}
	return address, stop
}

// call sends a request to the handler as a proxy would.
func (r *rig) call(method, target string, body io.Reader, header ...string) *http.Response {
	q := httptest.NewRequest(method, "http://example.com"+target, body)
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	r.Hooks().ServeHTTP(w, q)
	return w.Result()
}

func TestWhoeverAsksHearsOfWebhooks(t *testing.T) {
	r := newRig(t)
	served := make(chan string, 2)
	r.config.OnServe = func(instance, url string) { served <- instance + " " + url }
	h, _ := r.process("tele", Webhooks)
	address, stop := serve(t, h, "in", http.NotFound)
	if got := <-served; got != "tele "+address {
		t.Errorf("told %q, want tele %s", got, address)
	}
	_ = stop()
	later, _ := r.process("tele", Webhooks) // the next process serves the same path
	serve(t, later, "in", http.NotFound)
	if got := <-served; got != "tele "+address {
		t.Errorf("told %q, want tele %s", got, address)
	}
}

func TestWebhook(t *testing.T) {
	r := newRig(t)
	h, _ := r.process("tele", Webhooks)
	address, _ := serve(t, h, "in/box", func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		switch q.URL.Query().Get("do") {
		case "html":
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Set-Cookie", "a=b")
			w.Header().Set("Location", "https://evil.example")
		case "type":
			w.Header().Set("Content-Type", "no type\x01")
		case "status":
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprintf(w, "%s %q %q %q %s", q.Method, q.Header.Get("X-Sig"), q.Header.Get("Cookie"), q.Header.Get("Te"), body)
	})
	if address != "https://example.com/flynn/hooks/tele/in/box" {
		t.Errorf("address %s", address)
	}
	for _, k := range []struct {
		name, method, target, body string
		want                       int
		wantBody, wantType         string
	}{
		{"post", "POST", "/hooks/tele/in/box", "data", 200, `POST "s" "" "" data`, "text/plain; charset=utf-8"},
		{"get", "GET", "/hooks/tele/in/box?challenge=1", "", 200, `GET "s" "" "" `, "text/plain; charset=utf-8"},
		{"a slash at the end", "POST", "/hooks/tele/in/box/", "x", 200, `POST "s" "" "" x`, ""},
		{"only the content type comes back", "POST", "/hooks/tele/in/box?do=html", "", 200, `POST "s" "" "" `, "text/html"},
		{"a wrong content type", "POST", "/hooks/tele/in/box?do=type", "", 200, `POST "s" "" "" `, "application/octet-stream"},
		{"the plugin's status", "POST", "/hooks/tele/in/box?do=status", "", 418, `POST "s" "" "" `, ""},
		{"the longest body", "POST", "/hooks/tele/in/box?do=status", strings.Repeat("x", maxHookBody), 500, "", ""}, // the answer is too long
		{"a body that is too long", "POST", "/hooks/tele/in/box", strings.Repeat("x", maxHookBody+1), 413, "", ""},
		{"another method", "PUT", "/hooks/tele/in/box", "", 404, "", ""},
		{"a path below", "POST", "/hooks/tele/in/box/more", "", 404, "", ""},
		{"a path above", "POST", "/hooks/tele/in", "", 404, "", ""},
		{"the instance alone", "POST", "/hooks/tele", "", 404, "", ""},
		{"another instance", "POST", "/hooks/other/in/box", "", 404, "", ""},
		{"elsewhere", "GET", "/", "", 404, "", ""},
		{"the gateway's API", "GET", "/api/v1/status", "", 404, "", ""},
		{"an encoded slash", "POST", "/hooks/tele/in%2fbox", "", 404, "", ""},
		{"an encoded letter", "POST", "/hooks/tele/in/b%6fx", "", 404, "", ""},
		{"dots", "POST", "/hooks/tele/x/../in/box", "", 404, "", ""},
		{"two slashes", "POST", "/hooks/tele//in/box", "", 404, "", ""},
		{"a query that is no text", "POST", "/hooks/tele/in/box?a=\xff", "", 400, "", ""},
	} {
		t.Run(k.name, func(t *testing.T) {
			a := r.call(k.method, k.target, strings.NewReader(k.body), "X-Sig", "s", "X-Sig", "second", "Te", "trailers")
			body, _ := io.ReadAll(a.Body)
			if a.StatusCode != k.want || k.wantBody != "" && string(body) != k.wantBody || k.wantType != "" && a.Header.Get("Content-Type") != k.wantType {
				t.Errorf("%d %s %.100q", a.StatusCode, a.Header.Get("Content-Type"), body)
			}
			if a.Header.Get("Set-Cookie") != "" || a.Header.Get("Location") != "" || !strings.Contains(a.Header.Get("Content-Security-Policy"), "sandbox") {
				t.Errorf("headers %v", a.Header)
			}
			if a.StatusCode == 404 && string(body) != "Not Found\n" {
				t.Errorf("it says more: %q", body)
			}
		})
	}
	t.Run("a header that is no text", func(t *testing.T) {
		if a := r.call("POST", "/hooks/tele/in/box", nil, "X-Sig", "\xff"); a.StatusCode != 400 {
			t.Errorf("%d", a.StatusCode)
		}
	})
	t.Run("too many headers", func(t *testing.T) {
		var many []string
		for i := range maxHookHeaders + 1 {
			many = append(many, fmt.Sprint("X-", i), "v")
		}
		if a := r.call("POST", "/hooks/tele/in/box", nil, many...); a.StatusCode != 400 {
			t.Errorf("%d", a.StatusCode)
		}
	})
	t.Run("a body that breaks off", func(t *testing.T) {
		if a := r.call("POST", "/hooks/tele/in/box", io.MultiReader(strings.NewReader("x"), broken{})); a.StatusCode != 400 {
			t.Errorf("%d", a.StatusCode)
		}
	})
}

// TestLongWebhooks sends bodies to a plugin that asked for more than others get.
func TestLongWebhooks(t *testing.T) {
	r := newRig(t)
	endpoint, token, _ := r.Admit("tele", []string{Webhooks}, 1<<40)
	h, err := hostapi.Dial(endpoint, token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	serve(t, h, "in", func(w http.ResponseWriter, q *http.Request) {
		n, _ := io.Copy(io.Discard, q.Body)
		fmt.Fprint(w, n)
	})
	send := func(size int) (int, string) {
		a := r.call("POST", "/hooks/tele/in", io.MultiReader(strings.NewReader(strings.Repeat("x", size)))) // of unknown length
		body, _ := io.ReadAll(a.Body)
		return a.StatusCode, string(body)
	}
	for _, size := range []int{0, maxHookBody, maxHookBody + 1, 3_000_000, MaxHookBody} {
		if code, body := send(size); code != 200 || body != fmt.Sprint(size) {
			t.Errorf("%d bytes: %d, %s", size, code, body)
		}
	}
	if code, _ := send(MaxHookBody + 1); code != 413 {
		t.Errorf("more than any plugin gets: %d", code)
	}

	// Four that take their time; a fifth has to come again, and a short one does not wait for them.
	type slow struct {
		*io.PipeWriter
		code chan int
	}
	var all []slow
	for range maxLongCalls {
		body, in := io.Pipe()
		s := slow{in, make(chan int, 1)}
		go func() { s.code <- r.call("POST", "/hooks/tele/in", body).StatusCode }()
		_, _ = in.Write(make([]byte, maxHookBody+1))
		_, _ = in.Write(make([]byte, 1)) // it is read on: the request has its place
		all = append(all, s)
	}
	if code, _ := send(maxHookBody + 1); code != 503 {
		t.Errorf("a fifth long one: %d", code)
	}
	if code, _ := send(10); code != 200 {
		t.Errorf("a short one: %d", code)
	}
	for _, s := range all {
		_ = s.Close()
		if code := <-s.code; code != 200 {
			t.Errorf("a long one that took its time: %d", code)
		}
	}
	if code, _ := send(maxHookBody + 1); code != 200 {
		t.Errorf("after them: %d", code)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken off") }

func TestWebhookPaths(t *testing.T) {
	r := newRig(t)
	h, _ := r.process("one", Webhooks)
	for _, k := range []struct {
		path string
		want bool
	}{
		{"a", true}, {"a/b-c_d.e~F9", true}, {strings.Repeat("a", maxHookPath), true},
		{"/a", false}, {"a/", false}, {"a//b", false}, {".", false}, {"..", false}, {"a/../b", false}, {"a/.../b", false}, {"a b", false},
		{"a%2fb", false}, {"a?b", false}, {"a#b", false}, {"é", false}, {"a\x00", false}, {`a\b`, false}, {"a;b", false}, {strings.Repeat("a", maxHookPath+1), false},
	} {
		if got := validHookPath(k.path); got != k.want {
			t.Errorf("%.30q: %v", k.path, got)
		}
		if k.want {
			continue
		}
		if err := h.Webhook(t.Context(), k.path, func(string) { t.Error("it is served") }, http.NotFoundHandler()); code(err) != codes.InvalidArgument {
			t.Errorf("%.30q: %v", k.path, err)
		}
	}
	address, _ := serve(t, h, "", func(w http.ResponseWriter, _ *http.Request) {})
	t.Run("the instance's own", func(t *testing.T) {
		if address != "https://example.com/flynn/hooks/one" {
			t.Errorf("address %s", address)
		}
		if a := r.call("POST", "/hooks/one", nil); a.StatusCode != 200 {
			t.Errorf("%d", a.StatusCode)
		}
	})
	t.Run("the same once more", func(t *testing.T) {
		if err := h.Webhook(t.Context(), "", func(string) {}, http.NotFoundHandler()); code(err) != codes.AlreadyExists {
			t.Errorf("got %v", err)
		}
	})
}

func TestWebhookThatIsAway(t *testing.T) {
	r := newRig(t)
	status := func(path string) int {
		a := r.call("POST", path, nil)
		if a.StatusCode == 503 && a.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		return a.StatusCode
	}
	yes := func(http.ResponseWriter, *http.Request) {}
	h, revoke := r.process("one", Webhooks)
	_, stop := serve(t, h, "a", yes)
	if got := status("/hooks/one/a"); got != 200 {
		t.Fatalf("served: %d", got)
	}
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("the end of a webhook: %v", err)
	}
	waitFor(t, func() bool { return status("/hooks/one/a") == 503 })
	serve(t, h, "a", yes)
	if got := status("/hooks/one/a"); got != 200 {
		t.Errorf("served again: %d", got)
	}
	revoke() // the process has died
	waitFor(t, func() bool { return status("/hooks/one/a") == 503 })
	t.Run("after a restart of the host", func(t *testing.T) {
		r.stop()
		r.start()
		if got := status("/hooks/one/a"); got != 503 {
			t.Errorf("not served yet: %d", got)
		}
		if got := status("/hooks/one/b"); got != 404 {
			t.Errorf("never served: %d", got)
		}
		h, _ := r.process("one", Webhooks)
		serve(t, h, "a", yes)
		if got := status("/hooks/one/a"); got != 200 {
			t.Errorf("served: %d", got)
		}
	})
	t.Run("an instance that is not configured any more", func(t *testing.T) {
		r.Keep([]string{"two"})
		if got := status("/hooks/one/a"); got != 404 {
			t.Errorf("%d", got)
		}
		if keys, err := r.store.ListValues(t.Context(), shelf, "", "", 10); err != nil || len(keys) != 0 {
			t.Errorf("kept: %q (%v)", keys, err)
		}
	})
	t.Run("a version that does not ask for webhooks", func(t *testing.T) {
		h, revoke := r.process("three", Webhooks)
		serve(t, h, "a", yes)
		_, _, over := r.Admit("three", []string{Values}, 0)
		if got := status("/hooks/three/a"); got != 200 {
			t.Errorf("while the old one serves: %d", got)
		}
		over()
		revoke()
		waitFor(t, func() bool {
			r.Admit("three", []string{Values}, 0)
			return status("/hooks/three/a") == 404
		})
	})
}

// waitFor asks until it is so, or the test's own deadline ends it.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	for !so() {
		if t.Context().Err() != nil {
			t.Fatal("it never was")
		}
	}
}

// An upgrade starts the new process beside the old one: it takes the path over, and does not lose it again.
func TestWebhookOfALaterProcess(t *testing.T) {
	r := newRig(t)
	named := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }
	}
	old, _ := r.process("one", Webhooks)
	later, _ := r.process("one", Webhooks)
	done := make(chan error, 1)
	ready := make(chan string, 1)
	go func() { done <- old.Webhook(t.Context(), "a", func(u string) { ready <- u }, named("old")) }()
	<-ready
	serve(t, later, "a", named("new"))
	if err := <-done; code(err) != codes.Aborted {
		t.Errorf("the old one: %v", err)
	}
	if err := old.Webhook(t.Context(), "a", func(string) {}, named("old")); code(err) != codes.FailedPrecondition {
		t.Errorf("the old one again: %v", err)
	}
	body, _ := io.ReadAll(r.call("GET", "/hooks/one/a", nil).Body)
	if string(body) != "new" {
		t.Errorf("%q answers", body)
	}
}

func TestTooManyWebhooks(t *testing.T) {
	r := newRig(t)
	t.Run("requests at a time", func(t *testing.T) {
		h, _ := r.process("slow", Webhooks)
		begun, release := make(chan struct{}, maxHookCalls), make(chan struct{})
		serve(t, h, "a", func(http.ResponseWriter, *http.Request) { begun <- struct{}{}; <-release })
		answers := make(chan int, maxHookCalls)
		for range maxHookCalls {
			go func() { answers <- r.call("POST", "/hooks/slow/a", nil).StatusCode }()
		}
		for range maxHookCalls {
			<-begun
		}
		if a := r.call("POST", "/hooks/slow/a", nil); a.StatusCode != 503 || a.Header.Get("Retry-After") == "" {
			t.Errorf("one more: %d", a.StatusCode)
		}
		close(release)
		for range maxHookCalls {
			if got := <-answers; got != 200 {
				t.Errorf("answer %d", got)
			}
		}
	})
	t.Run("requests for one path", func(t *testing.T) {
		h, _ := r.process("busy", Webhooks)
		serve(t, h, "a", func(http.ResponseWriter, *http.Request) {})
		serve(t, h, "b", func(http.ResponseWriter, *http.Request) {})
		// The calls that a second allows depend on the machine: here it allows none.
		found, _ := r.find("/hooks/busy/a")
		found.rate.SetLimit(0.01)
		refused := false
		for range 2 * hooksAtOnce {
			if a := r.call("POST", "/hooks/busy/a", nil); a.StatusCode == 429 && a.Header.Get("Retry-After") != "" {
				refused = true
				break
			}
		}
		if !refused {
			t.Error("it never was too much")
		}
		if a := r.call("POST", "/hooks/busy/b", nil); a.StatusCode != 200 {
			t.Errorf("another path: %d", a.StatusCode)
		}
	})
	t.Run("junk for a path", func(t *testing.T) {
		h, _ := r.process("known", Webhooks)
		serve(t, h, "a", func(w http.ResponseWriter, q *http.Request) {
			if q.Header.Get("Signature") != "good" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
		found, _ := r.find("/hooks/known/a")
		found.rate.SetLimit(0)
		for range 2 * hooksAtOnce {
			if a := r.call("POST", "/hooks/known/a", nil); a.StatusCode != 401 {
				t.Fatalf("junk: %d", a.StatusCode)
			}
		}
		for range hooksAtOnce {
			if a := r.call("POST", "/hooks/known/a", nil, "Signature", "good"); a.StatusCode != 200 {
				t.Fatalf("the platform, after junk: %d", a.StatusCode)
			}
		}
		if a := r.call("POST", "/hooks/known/a", nil, "Signature", "good"); a.StatusCode != 429 {
			t.Errorf("the platform, over its rate: %d", a.StatusCode)
		}
	})
	t.Run("paths", func(t *testing.T) {
		h, _ := r.process("wide", Webhooks)
		stops := map[int]func() error{}
		for i := range maxRoutes {
			_, stops[i] = serve(t, h, fmt.Sprint("p", i), func(http.ResponseWriter, *http.Request) {})
		}
		if err := h.Webhook(t.Context(), "more", func(string) {}, http.NotFoundHandler()); code(err) != codes.ResourceExhausted {
			t.Errorf("one more: %v", err)
		}
		_ = stops[3]()
		waitFor(t, func() bool { return r.call("POST", "/hooks/wide/p3", nil).StatusCode == 503 })
		serve(t, h, "more", func(http.ResponseWriter, *http.Request) {})
		if a := r.call("POST", "/hooks/wide/p3", nil); a.StatusCode != 404 {
			t.Errorf("the path that was left: %d", a.StatusCode)
		}
	})
}

// Answers that no request waits for, and ones that make no sense, harm nobody.
func TestWrongAnswers(t *testing.T) {
	r := newRig(t)
	c, ctx := r.raw(t.Context(), "wrong", Webhooks)
	stream, err := c.Webhook(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&hostv1.WebhookRequest{Frame: &hostv1.WebhookRequest_Path{Path: "a"}}); err != nil {
		t.Fatal(err)
	}
	if f, err := stream.Recv(); err != nil || f.GetUrl() == "" {
		t.Fatalf("%v (%v)", f, err)
	}
	answer := func(a *hostv1.WebhookAnswer) {
		if err := stream.Send(&hostv1.WebhookRequest{Frame: &hostv1.WebhookRequest_Answer{Answer: a}}); err != nil {
			t.Error(err)
		}
	}
	for _, k := range []struct {
		name string
		a    *hostv1.WebhookAnswer
		want int
	}{
		{"a good one", &hostv1.WebhookAnswer{Status: 204}, 204},
		{"no status", &hostv1.WebhookAnswer{}, 503},
		{"an informational status", &hostv1.WebhookAnswer{Status: 101}, 503},
		{"a status that there is not", &hostv1.WebhookAnswer{Status: 1 << 31}, 503},
		{"too long a body", &hostv1.WebhookAnswer{Status: 200, Body: make([]byte, maxHookBody+1)}, 503},
		{"a header that would end the headers", &hostv1.WebhookAnswer{Status: 200, Headers: map[string]string{"content-type": "a/b\r\nset-cookie: c"}}, 200},
	} {
		t.Run(k.name, func(t *testing.T) {
			got := make(chan *http.Response, 1)
			go func() { got <- r.call("POST", "/hooks/wrong/a", nil) }()
			f, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			answer(&hostv1.WebhookAnswer{Id: f.GetCall().GetId() + 7, Status: 200})
			_ = stream.Send(&hostv1.WebhookRequest{})
			k.a.Id = f.GetCall().GetId()
			answer(k.a)
			answer(k.a)
			if a := <-got; a.StatusCode != k.want || strings.Contains(a.Header.Get("Content-Type"), "cookie") {
				t.Errorf("%d %v", a.StatusCode, a.Header)
			}
		})
	}
	t.Run("the caller is gone", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w, done := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(done)
			r.Hooks().ServeHTTP(w, httptest.NewRequest("POST", "/hooks/wrong/a", nil).WithContext(ctx))
		}()
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-done
	})
}

func TestFirstFrameOfAWebhook(t *testing.T) {
	r := newRig(t)
	c, ctx := r.raw(t.Context(), "one", Webhooks)
	stream, err := c.Webhook(ctx)
	if err == nil {
		err = stream.Send(&hostv1.WebhookRequest{Frame: &hostv1.WebhookRequest_Answer{Answer: &hostv1.WebhookAnswer{}}})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if code(err) != codes.InvalidArgument {
		t.Errorf("got %v", err)
	}
	r.config.PublicURL = ""
	stream, err = c.Webhook(ctx)
	if err == nil {
		_, err = stream.Recv()
	}
	if code(err) != codes.FailedPrecondition {
		t.Errorf("a host without webhooks: %v", err)
	}
}

// FuzzHooks sends requests of all kinds: only the registered path ever gets to the plugin, and what gets there is text.
func FuzzHooks(f *testing.F) {
	for _, target := range []string{"/hooks/one/a", "/hooks/one/a/", "/hooks/one/%61", "/hooks/one/./a", "//hooks/one/a", "/hooks/one/a?x=%ff", "/", "*", "/hooks/one/a;b"} {
		f.Add("POST", target, "X-A", "v", []byte("body"))
	}
	f.Add("GET", "/hooks/one/a?q", "Transfer-Encoding", "chunked", []byte(nil))
	f.Add("POST", "/hooks/one/a", "X-\xff", "\x80", bytes.Repeat([]byte("x"), 300<<10))
	f.Fuzz(func(t *testing.T, method, target, name, value string, body []byte) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		var passed atomic.Int32
		s := &Server{config: Config{}, routes: map[string]*route{}}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		h := &hook{
			guest: &guest{account: newAccount(1)}, path: "a", calls: make(chan *hostv1.WebhookCall), ended: ctx, end: cancel,
			waiting: map[uint64]chan *hostv1.WebhookAnswer{},
		}
		r := newRoute("one", "a")
		r.hook = h
		s.routes[HookPath("one", "a")] = r
		done := make(chan struct{})
		go func() {
			defer close(done)
			select {
			case call := <-h.calls:
				passed.Add(1)
				if _, err := proto.Marshal(call); err != nil {
					t.Errorf("the call cannot be sent: %v", err)
				}
				for name, value := range call.GetHeaders() {
					if !utf8.ValidString(name+value) || strings.ToLower(name) != name || hopByHop(name) {
						t.Errorf("header %q: %q", name, value)
					}
				}
				h.answered(&hostv1.WebhookAnswer{Id: call.GetId(), Status: 200})
			case <-ctx.Done():
			}
		}()
		w := httptest.NewRecorder()
		q := &http.Request{Method: method, URL: u, Header: http.Header{name: {value}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: -1}
		s.Hooks().ServeHTTP(w, q)
		cancel()
		<-done
		exact := u.Path == "/hooks/one/a" || u.Path == "/hooks/one/a/"
		if passed.Load() > 0 && (!exact || u.RawPath != "" || method != "GET" && method != "POST" || len(body) > maxHookBody) {
			t.Errorf("%s %s was passed on", method, target)
		}
		if (w.Code == 200) != (passed.Load() > 0) {
			t.Errorf("%s %s: status %d", method, target, w.Code)
		}
	})
}
