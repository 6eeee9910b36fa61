package service

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

// Bounds of requests and answers.
const (
	maxHookBody     = 256 << 10 // bytes
	maxHookHeaders  = 64        // count
	maxHookType     = 100       // bytes of a content type
	retryAfter      = 5         // seconds, while a plugin is away or busy
	statusTooMany   = http.StatusTooManyRequests
	statusNotServed = http.StatusServiceUnavailable
)

// Hooks takes the requests of platforms. It may face the internet, behind a proxy: nothing answers but what plugins have registered,
// and who calls is for the plugin to check.
func (s *Server) Hooks() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// What comes back is a plugin's, at an address of the operator: no browser is to run it.
		w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		instance, code := s.receive(w, r)
		s.config.OnHook(instance, code)
	})
}

// receive answers one request and says with what status.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) (instance string, code int) {
	found, h := s.find(hookPath(r))
	if found == nil {
		return "", refuse(w, http.StatusNotFound)
	}
	if !found.rate.Allow() {
		return found.instance, refuse(w, statusTooMany)
	}
	if h == nil {
		return found.instance, refuse(w, statusNotServed)
	}
	call, code := readCall(w, r)
	if call == nil {
		return found.instance, refuse(w, code)
	}
	release, ok := take(h.guest.hookSlots)
	if !ok {
		return found.instance, refuse(w, statusNotServed)
	}
	defer release()
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	a := h.ask(ctx, call)
	if !goodAnswer(a) {
		return found.instance, refuse(w, statusNotServed)
	}
	if t := contentType(a); t != "" {
		w.Header().Set("Content-Type", t)
	}
	w.WriteHeader(int(a.GetStatus()))
	_, _ = w.Write(a.GetBody()) // who called may be gone, which changes nothing here
	return found.instance, int(a.GetStatus())
}

// refuse answers with a status and no word more.
func refuse(w http.ResponseWriter, code int) int {
	if code == statusTooMany || code == statusNotServed {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	http.Error(w, http.StatusText(code), code)
	return code
}

// hookPath is the path of a request that could be a registered one, and empty for others: those with an encoding, which proxies
// resolve in several ways, and those of methods that no webhook has.
func hookPath(r *http.Request) string {
	if r.Method != http.MethodGet && r.Method != http.MethodPost || r.URL.RawPath != "" || r.URL.EscapedPath() != r.URL.Path {
		return ""
	}
	if !strings.HasPrefix(r.URL.Path, prefix) || len(r.URL.Path) > len(prefix)+maxHookPath*2 {
		return ""
	}
	return r.URL.Path
}

// readCall turns a request into a call, or says with what status it is refused.
func readCall(w http.ResponseWriter, r *http.Request) (*hostv1.WebhookCall, int) {
	if r.ContentLength > maxHookBody {
		return nil, http.StatusRequestEntityTooLarge
	}
	headers, ok := callHeaders(r)
	if !ok || !utf8.ValidString(r.URL.RawQuery) {
		return nil, http.StatusBadRequest
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHookBody))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, http.StatusRequestEntityTooLarge
	}
	if err != nil {
		return nil, http.StatusBadRequest
	}
	call := &hostv1.WebhookCall{Method: r.Method, Query: r.URL.RawQuery, Headers: headers, Body: body}
	if proto.Size(call) > handshake.MaxFrame/2 {
		return nil, http.StatusRequestHeaderFieldsTooLarge
	}
	return call, 0
}

// hopByHop are headers that are about the connection, and mean nothing behind it.
func hopByHop(name string) bool {
	switch name {
	case "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade":
		return true
	}
	return false
}

// callHeaders are the headers that a plugin gets. Ones that are not text cannot be passed on, and leaving one out could change what
// a request means.
func callHeaders(r *http.Request) (map[string]string, bool) {
	if len(r.Header) > maxHookHeaders {
		return nil, false
	}
	out := make(map[string]string, len(r.Header))
	for name, values := range r.Header {
		name = strings.ToLower(name)
		if hopByHop(name) || len(values) == 0 {
			continue
		}
		if !utf8.ValidString(values[0]) || !utf8.ValidString(name) {
			return nil, false
		}
		out[name] = values[0]
	}
	return out, true
}

// goodAnswer tells whether a plugin's answer can be passed on.
func goodAnswer(a *hostv1.WebhookAnswer) bool {
	return a != nil && a.GetStatus() >= 200 && a.GetStatus() <= 599 && len(a.GetBody()) <= maxHookBody
}

// contentType is that of an answer, in canonical form; one that is none says that the body is bytes.
func contentType(a *hostv1.WebhookAnswer) string {
	given := a.GetHeaders()["content-type"]
	if given == "" {
		return ""
	}
	media, params, err := mime.ParseMediaType(given)
	if err != nil || len(given) > maxHookType || strings.Count(media, "/") != 1 {
		return "application/octet-stream"
	}
	return mime.FormatMediaType(media, params)
}
