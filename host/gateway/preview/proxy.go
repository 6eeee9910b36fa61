package preview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// Bounds of what a program may answer.
const (
	connectTimeout = 10 * time.Second
	headTimeout    = 2 * time.Minute // the first page of a development server may have to be compiled
	maxHead        = 64 << 10
	maxAnswer      = 1 << 30 // bytes of one answer
	maxConnections = 32      // of one preview; a sandbox has frame.MaxDialed
	keptAlive      = 15 * time.Second
)

var errTooLarge = errors.New("the answer has more bytes than are passed on")

// newProxy returns the way to the port of a preview. Each connection is asked for anew, so none leads to another sandbox than its own.
func (s *Service) newProxy(p *preview) *httputil.ReverseProxy {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, connectTimeout)
			defer cancel()
			box, err := s.Sandboxes.Box(p.Sandbox)
			if err != nil {
				return nil, err
			}
			return box.Dial(ctx, uint16(p.Port))
		},
		DisableCompression: true, ResponseHeaderTimeout: headTimeout, MaxResponseHeaderBytes: maxHead,
		MaxConnsPerHost: maxConnections, MaxIdleConnsPerHost: maxConnections, IdleConnTimeout: keptAlive,
	}
	context.AfterFunc(p.ctx, transport.CloseIdleConnections)
	return &httputil.ReverseProxy{
		Transport: transport, Rewrite: p.rewrite, ModifyResponse: p.modify, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			s.Log.Debug("a preview has no answer", "preview", p.ID, "error", err)
			p.sorry(w, err)
		},
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
}

// sorry says in Flynn's own words why there is no answer: the program's may mean anything.
func (p *preview) sorry(w http.ResponseWriter, err error) {
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("A request to a preview may have %d bytes.", int64(maxUpload)))
	case errors.Is(err, errTooLarge):
		refuse(w, http.StatusBadGateway, fmt.Sprintf("An answer to a preview may have %d bytes.", int64(maxAnswer)))
	case errors.Is(err, machine.ErrNotFound):
		refuse(w, http.StatusBadGateway, fmt.Sprintf("Nothing listens on port %d in the sandbox any more. Start the server again and reload.", p.Port))
	default:
		refuse(w, http.StatusBadGateway, fmt.Sprintf("The program on port %d of the sandbox gave no proper answer over HTTP.", p.Port))
	}
}

// inside is the address of the port as programs inside know it. Development servers refuse requests for hosts that they do not know.
func (p *preview) inside() string { return fmt.Sprintf("localhost:%d", p.Port) }

// rewrite makes the request that the program sees: one of a browser at its own address, without what is Flynn's. Hop-by-hop headers and those
// of proxies are gone already.
func (p *preview) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", p.inside(), p.inside()
	h := r.Out.Header
	if h.Get("Upgrade") != "" && !strings.EqualFold(h.Get("Upgrade"), "websocket") {
		h.Del("Upgrade")
		h.Del("Connection")
	}
	if h.Get("Origin") != "" { // it is the preview's own, as ServeHTTP has seen
		h.Set("Origin", "http://"+p.inside())
	}
	if from, err := url.Parse(h.Get("Referer")); err == nil && from.Host == r.In.Host && from.Path != signInPath {
		from.Scheme, from.Host = "http", p.inside()
		h.Set("Referer", from.String())
	} else {
		h.Del("Referer")
	}
	cookies := r.In.Cookies()
	h.Del("Cookie")
	for _, c := range cookies {
		if !isOwnCookie(c.Name) {
			r.Out.AddCookie(c)
		}
	}
}

// notPassed are headers of an answer that would act on more than the preview's own origin, or for longer than it lasts.
var notPassed = []string{"Alt-Svc", "Clear-Site-Data", "Strict-Transport-Security", "Public-Key-Pins", "Set-Login"}

// modify changes the answer of the program.
func (p *preview) modify(res *http.Response) error {
	for _, name := range notPassed {
		res.Header.Del(name)
	}
	p.cookies(res.Header)
	p.location(res.Header)
	res.Header.Add("Content-Security-Policy", p.policy())
	res.Header.Set("Referrer-Policy", "same-origin") // its name is for this browser alone
	res.Header.Set("Cross-Origin-Resource-Policy", "same-origin")
	res.Header.Set("Origin-Agent-Cluster", "?1") // no other preview comes nearer by document.domain
	if res.StatusCode != http.StatusSwitchingProtocols {
		if res.ContentLength > maxAnswer {
			return errTooLarge
		}
		res.Body = &bounded{res.Body, maxAnswer}
	}
	return nil
}

// policy is what browsers hold what is served to, besides its own policy. Where programs may not reach the network, their pages may not
// either: a page could tell what is in the sandbox to anybody.
func (p *preview) policy() string {
	if !p.alone {
		return "frame-ancestors 'self'"
	}
	return "default-src 'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' data: blob:; connect-src 'self' data: blob: " + p.socket() +
		"; form-action 'self'; base-uri 'self'; frame-ancestors 'self'"
}

// socket is the origin of the preview's WebSockets, which older browsers do not count as 'self'.
func (p *preview) socket() string {
	return "ws" + strings.TrimPrefix(strings.TrimSuffix(p.Address, "/"), "http")
}

// cookies keeps those of the program to its own host, and away from Flynn's.
func (p *preview) cookies(h http.Header) {
	set := h.Values("Set-Cookie")
	kept := slices.DeleteFunc(slices.Clone(set), func(line string) bool {
		c, err := http.ParseSetCookie(line)
		return err != nil || isOwnCookie(c.Name)
	})
	for i, line := range kept {
		if c, _ := http.ParseSetCookie(line); c.Domain != "" {
			c.Domain = ""
			kept[i] = c.String()
		}
	}
	h.Del("Set-Cookie")
	for _, line := range kept {
		h.Add("Set-Cookie", line)
	}
}

// location turns a redirect to the program's own address into one of the preview.
func (p *preview) location(h http.Header) {
	to, err := url.Parse(h.Get("Location"))
	if err != nil || to.Port() != fmt.Sprint(p.Port) || to.Scheme != "http" && to.Scheme != "" ||
		!slices.Contains([]string{"localhost", "127.0.0.1", "::1", "0.0.0.0"}, to.Hostname()) {
		return
	}
	to.Scheme, to.Host, to.User = "", "", nil
	if !strings.HasPrefix(to.Path, "/") || strings.HasPrefix(to.Path, "//") {
		to.Path, to.RawPath = "/"+strings.TrimLeft(to.Path, "/"), ""
	}
	h.Set("Location", to.String())
}

// final leaves out what comes before the answer, such as hints of what to load: modify has not seen it.
type final struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (f final) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		f.ResponseWriter.WriteHeader(status)
	}
}

// Unwrap is for http.ResponseController.
func (f final) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// bounded is the body of an answer up to a number of bytes.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
