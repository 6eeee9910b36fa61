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
	maxHookBody     = 256 << 10 // bytes, unless the plugin asks for more
	maxHookHeaders  = 64        // count
	maxHookType     = 100       // bytes of a content type
	retryAfter      = 5         // seconds, while a plugin is away or busy
	statusTooMany   = http.StatusTooManyRequests
	statusNotServed = http.StatusServiceUnavailable
)

// MaxHookBody is the longest request that a plugin can ask for, in bytes: a platform that catches up sends many messages in one.
const MaxHookBody = 4 << 20

// Hooks handles the requests of platforms. It may be reachable from the internet, behind a proxy: it answers only on the paths that plugins
// have registered, and the plugins authenticate the callers.
func (s *Server) Hooks() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A plugin writes the answer, and it is served at an address of the operator: no browser may execute it.
		w.Header().Set("Content-Security-Policy", hookPolicy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cache-Control", "no-store")
		instance, code := s.receive(w, r)
		s.config.Events.Publish(HookServed{instance, code})
	})
}

const hookPolicy = "default-src 'none'; sandbox"

// Refused reports whether an answer is that of Hooks to a path that no plugin has registered. It shows people whether their proxy leads here.
func Refused(resp *http.Response) bool {
	return resp.StatusCode == http.StatusNotFound && resp.Header.Get("Content-Security-Policy") == hookPolicy
}

// receive answers one request and returns the status.
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
		found.rate.Allow() // requests that the plugin refuses do not use up the rate of its platform
	}
	if t := contentType(a); t != "" {
		w.Header().Set("Content-Type", t)
	}
	w.WriteHeader(int(a.GetStatus()))
	_, _ = w.Write(a.GetBody()) // fails only if the caller is gone
	return found.instance, int(a.GetStatus())
}

// refuse answers with a status only.
func refuse(w http.ResponseWriter, code int) int {
	if code == statusTooMany || code == statusNotServed {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	http.Error(w, http.StatusText(code), code)
	return code
}

// hookPath is the path of a request if it can be a registered one, else "". Encoded paths, which proxies decode in different ways, and
// methods that no webhook uses are never registered.
func hookPath(r *http.Request) string {
	if r.Method != http.MethodGet && r.Method != http.MethodPost || r.URL.RawPath != "" || r.URL.EscapedPath() != r.URL.Path {
		return ""
	}
	if !strings.HasPrefix(r.URL.Path, prefix) || len(r.URL.Path) > len(prefix)+maxHookPath*2 {
		return ""
	}
	return r.URL.Path
}

// readCall turns a request into a call, or returns the status of its refusal. release frees the slot of a long one.
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

// readBody reads the body of a request. A long one is refused, to be sent again, while there are already maxLongCalls of them.
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

// hopByHop reports whether a header is about the connection only.
func hopByHop(name string) bool {
	switch name {
	case "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade":
		return true
	}
	return false
}

// callHeaders are the headers for the plugin. It fails if one is not valid text, because leaving it out could change the meaning of the
// request.
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

// contentType is the content type of an answer, in canonical form, or application/octet-stream if it is invalid.
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
