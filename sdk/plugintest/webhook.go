package plugintest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

// Limits of webhooks that the host enforces as well.
const (
	maxHookBody = 256 << 10 // bytes
	hookTimeout = 15 * time.Second
)

// WebhookURL waits until the plugin serves a webhook at path and returns its full address, to which a fake platform or the test can send
// real requests. Without the permission "webhook" the test fails.
func (h *Host) WebhookURL(path string) string {
	h.t.Helper()
	if h.hookURL == "" {
		h.t.Fatal(`webhooks need Config.Permissions "webhook"`)
	}
	patience := time.After(h.config.Timeout)
	for {
		hk, changed := h.config.Services.hook(path)
		if hk != nil {
			return h.hookURL + below(path)
		}
		select {
		case <-changed:
		case <-patience:
			h.t.Fatalf("the plugin serves no webhook at %q", path)
		}
	}
}

// Webhook sends an HTTP request to the webhook that the plugin serves at path and returns the response, whose body the test closes. The
// address of r is ignored.
func (h *Host) Webhook(path string, r *http.Request) *http.Response {
	h.t.Helper()
	url := h.WebhookURL(path)
	if q := r.URL.RawQuery; q != "" {
		url += "?" + q
	}
	ctx, cancel := h.deadline()
	h.t.Cleanup(cancel)
	out, err := http.NewRequestWithContext(ctx, r.Method, url, r.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	out.Header = r.Header.Clone()
	transport := &http.Transport{DisableKeepAlives: true} // its connection ends with the response
	answer, err := transport.RoundTrip(out)
	if err != nil {
		h.t.Fatalf("call the webhook: %v", err)
	}
	return answer
}

// hook is a path that a plugin serves.
type hook struct {
	sending sync.Mutex
	stream  grpc.BidiStreamingServer[hostv1.WebhookRequest, hostv1.WebhookResponse]

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan *hostv1.WebhookAnswer
}

// hook returns the hook at path, or nil, and a channel that is closed at the next change.
func (s *Services) hook(path string) (*hook, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hooks[path], s.changed
}

// lingers is how long the stream of a killed process may hold its path.
const lingers = 5 * time.Second

// register adds a hook unless the path is taken, and stays so.
func (s *Services) register(ctx context.Context, path string, h *hook) bool {
	ctx, cancel := context.WithTimeout(ctx, lingers)
	defer cancel()
	for {
		added, changed := s.add(path, h)
		if added {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// add adds a hook unless the path is taken, and returns a channel that is closed at the next change.
func (s *Services) add(path string, h *hook) (added bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hooks[path] != nil {
		return false, s.changed
	}
	s.hooks[path] = h
	s.change()
	return true, s.changed
}

func (s *Services) unregister(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.hooks, path)
	s.change()
}

// change tells those who wait for a change. s.mu is held.
func (s *Services) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Webhook implements hostv1.HostServer.
func (s *hostServer) Webhook(stream grpc.BidiStreamingServer[hostv1.WebhookRequest, hostv1.WebhookResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	path, ok := first.GetFrame().(*hostv1.WebhookRequest_Path)
	if !ok {
		return status.Error(codes.InvalidArgument, "the first frame must be the path")
	}
	h := &hook{stream: stream, waiting: map[uint64]chan *hostv1.WebhookAnswer{}}
	h.sending.Lock() // the address is sent before the first call
	if !s.register(stream.Context(), path.Path, h) {
		return status.Errorf(codes.AlreadyExists, "path %q is served already", path.Path)
	}
	defer s.unregister(path.Path)
	err = stream.Send(&hostv1.WebhookResponse{Frame: &hostv1.WebhookResponse_Url{Url: s.hookURL + below(path.Path)}})
	h.sending.Unlock()
	if err != nil {
		return err
	}
	if s.onServe != nil {
		var telling sync.WaitGroup
		defer telling.Wait()
		telling.Go(func() { s.onServe(s.hookURL + below(path.Path)) }) // it may call the webhook, whose answer is read below
	}
	for {
		frame, err := stream.Recv()
		if err != nil {
			return err
		}
		if a := frame.GetAnswer(); a != nil {
			h.answered(a)
		}
	}
}

func (h *hook) send(frame *hostv1.WebhookResponse) error {
	h.sending.Lock()
	defer h.sending.Unlock()
	return h.stream.Send(frame)
}

func (h *hook) answered(a *hostv1.WebhookAnswer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.waiting[a.GetId()]; c != nil {
		delete(h.waiting, a.GetId())
		c <- a
	}
}

// ask sends a call to the plugin and waits for its answer; nil means that there is none.
func (h *hook) ask(ctx context.Context, call *hostv1.WebhookCall) *hostv1.WebhookAnswer {
	answer := make(chan *hostv1.WebhookAnswer, 1)
	h.mu.Lock()
	h.last++
	call.Id = h.last
	h.waiting[call.Id] = answer
	h.mu.Unlock()
	if h.send(&hostv1.WebhookResponse{Frame: &hostv1.WebhookResponse_Call{Call: call}}) != nil {
		return nil
	}
	select {
	case a := <-answer:
		return a
	case <-ctx.Done():
	case <-h.stream.Context().Done():
	}
	return nil
}

// below returns a path in the form that follows the instance's own address.
func below(path string) string {
	if path == "" {
		return ""
	}
	return "/" + path
}

// serveHooks serves HTTP on loopback and returns the address below which the instance's hooks are.
func (s *hostServer) serveHooks(t testing.TB, instance string) string {
	prefix := "/hooks/" + instance
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := strings.CutPrefix(strings.TrimSuffix(r.URL.Path, "/"), prefix)
		path = strings.TrimPrefix(path, "/")
		h, _ := s.hook(path)
		if !ok || h == nil || r.Method != http.MethodPost && r.Method != http.MethodGet {
			http.NotFound(w, r)
			return
		}
		s.pass(h, w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + prefix
}

// pass forwards one request to the plugin and returns its answer.
func (s *hostServer) pass(h *hook, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHookBody))
	if err != nil {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	headers := map[string]string{}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = values[0]
	}
	ctx, cancel := context.WithTimeout(r.Context(), hookTimeout)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	a := h.ask(ctx, &hostv1.WebhookCall{Method: r.Method, Query: r.URL.RawQuery, Headers: headers, Body: body})
	if a == nil || a.GetStatus() < 200 || a.GetStatus() > 599 {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "no answer", http.StatusServiceUnavailable)
		return
	}
	if t := a.GetHeaders()["content-type"]; t != "" {
		w.Header().Set("Content-Type", t)
	}
	w.WriteHeader(int(a.GetStatus()))
	_, _ = w.Write(a.GetBody())
}
