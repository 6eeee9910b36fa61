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
	maxHookBody     = 256 << 10 // bytes, where the plugin asks for no more
	maxHookHeaders  = 64        // count
	maxHookType     = 100       // bytes of a content type
	retryAfter      = 5         // seconds, while a plugin is away or busy
	statusTooMany   = http.StatusTooManyRequests
	statusNotServed = http.StatusServiceUnavailable
)

// MaxHookBody is the longest request that a plugin can ask for, in bytes: a platform that catches up puts many messages into one.
const MaxHookBody = 4 << 20

// Hooks takes the requests of platforms. It may face the internet, behind a proxy: nothing answers but what plugins have registered,
// and who calls is for the plugin to check.
func (s *Server) Hooks() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The answer is a plugin's, at an address of the operator: no browser may run it.
		w.Header().Set("Content-Security-Policy", "default-src 'none'; sandbox")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		instance, code := s.receive(w, r)
		s.config.Events.Publish(HookServed{instance, code})
	})
}

// receive answers one request and says with what status.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) (instance string, code int) {
	found, h := s.find(hookPath(r))
	if found == nil {
		return "", refuse(w, http.StatusNotFound)
	}
	if found.rate.Tokens() < 1 {
		return found.instance, refuse(w, statusTooMany)
	}
	if h == nil {
		return found.instance, refuse(w, statusNotServed)
	}
	call, code, done := readCall(w, r, h.guest)
	if call == nil {
		return found.instance, refuse(w, code)
	}
	defer done()
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
	if a.GetStatus() < http.StatusMultipleChoices {
		found.rate.Allow() // only the plugin knows who called: what it turns away uses up nothing that its platform needs
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

// readCall turns a request into a call, or says with what status it is refused. release gives back the room that a long one takes.
func readCall(w http.ResponseWriter, r *http.Request, g *guest) (call *hostv1.WebhookCall, code int, release func()) {
	headers, ok := callHeaders(r)
	if !ok || !utf8.ValidString(r.URL.RawQuery) {
		return nil, http.StatusBadRequest, nil
	}
	body, code, release := readBody(w, r, g)
	if code != 0 {
		return nil, code, nil
	}
	call = &hostv1.WebhookCall{Method: r.Method, Query: r.URL.RawQuery, Headers: headers, Body: body}
	if proto.Size(call)-len(body) > handshake.MaxFrame/4 {
		release()
		return nil, http.StatusRequestHeaderFieldsTooLarge, nil
	}
	return call, 0, release
}

// readBody reads the body of a request. Long ones wait for nobody: while there are as many as may be, a further one is to come again.
func readBody(w http.ResponseWriter, r *http.Request, g *guest) (body []byte, code int, release func()) {
	if r.ContentLength > g.hookBody {
		return nil, http.StatusRequestEntityTooLarge, nil
	}
	whole := http.MaxBytesReader(w, r.Body, g.hookBody)
	body, err := io.ReadAll(io.LimitReader(whole, maxHookBody+1))
	release = func() {}
	if err == nil && len(body) > maxHookBody {
		var ok bool
		if release, ok = take(g.longSlots); !ok {
			return nil, statusNotServed, nil
		}
		var rest []byte
		rest, err = io.ReadAll(whole)
		body = append(body, rest...)
	}
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		release()
		return nil, http.StatusRequestEntityTooLarge, nil
	case err != nil:
		release()
		return nil, http.StatusBadRequest, nil
	}
	return body, 0, release
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

// goodAnswer reports whether a plugin's answer can be passed on.
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
