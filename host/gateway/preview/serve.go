package preview

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// ownPath begins the paths that are never passed on.
	ownPath    = "/.flynn/"
	signInPath = ownPath + "sign-in"
	// maxRequests bounds the requests of one preview that are open at the same time.
	maxRequests = 64
	maxUpload   = 256 << 20 // bytes of one request
)

// ServeHTTP implements gateway.PreviewOrigins: it lets requests through that come from the preview's own pages, or from no page, in a browser that is
// signed in there.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	label, _ := s.base.label(r.Host)
	s.mu.Lock()
	p := s.open[label]
	s.mu.Unlock()
	if p == nil || s.over(p) != "" {
		refuse(w, http.StatusNotFound, "This preview is not open, or not any more. Open it again from the console, or with flynn sandbox preview.")
		return
	}
	signingIn := r.URL.Path == signInPath && r.Method == http.MethodGet
	switch {
	case foreign(r, s.base.scheme) && !(signingIn && followed(r)):
		refuse(w, http.StatusForbidden, "Requests from other sites are not allowed here. Open the preview from the console.")
	case signingIn:
		s.signIn(w, r, p)
	case !p.knows(r):
		refuse(w, http.StatusForbidden, "This browser is not signed in at this preview. Open it from the console, or with flynn sandbox preview.")
	case strings.HasPrefix(r.URL.Path, ownPath):
		refuse(w, http.StatusNotFound, "Flynn has no such page.")
	default:
		p.pass(w, r)
	}
}

// foreign reports whether a browser says that a page of another origin sends the request. Cookies do not keep those of other previews out,
// which may be of the same site.
func foreign(r *http.Request, scheme string) bool {
	for _, origin := range r.Header.Values("Origin") {
		if !strings.EqualFold(origin, scheme+"://"+r.Host) {
			return true
		}
	}
	return !slices.Contains([]string{"", "none", "same-origin"}, r.Header.Get("Sec-Fetch-Site"))
}

// followed reports whether a person follows a link to a page of its own.
func followed(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" && r.Header.Get("Origin") == ""
}

// cookieName is the name of the cookie of a signed-in browser. With its prefix no page of a neighbouring host can set it.
func (p *preview) cookieName() string {
	if strings.HasPrefix(p.Address, "https:") {
		return "__Host-flynn-preview"
	}
	return "flynn-preview"
}

// isOwnCookie reports whether a cookie is Flynn's own, over either scheme.
func isOwnCookie(name string) bool {
	return strings.EqualFold(name, "flynn-preview") || strings.EqualFold(name, "__Host-flynn-preview")
}

// knows reports whether a request comes from a browser that is signed in. A page can add cookies of the name, so any of them counts.
func (p *preview) knows(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(r.CookiesNamed(p.cookieName()), func(c *http.Cookie) bool { return find(p.browsers, c.Value) >= 0 })
}

// signIn uses a link. Its page leads to the preview: a redirect would count as coming from the page that has the link, and strict cookies stay
// behind then.
func (s *Service) signIn(w http.ResponseWriter, r *http.Request, p *preview) {
	secret, ok := p.use(r.URL.Query().Get("code"))
	if !ok && !p.knows(r) {
		refuse(w, http.StatusForbidden, "This link was used already, or is older than ten minutes. Open the preview again from the console.")
		return
	}
	if ok {
		http.SetCookie(w, &http.Cookie{
			Name: p.cookieName(), Value: secret, Path: "/", MaxAge: max(1, int(time.Until(p.Expires).Seconds())), HttpOnly: true, Secure: s.base.secure(),
			SameSite: http.SameSiteStrictMode,
		})
	}
	ownHeaders(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, signedIn)
}

const signedIn = `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><title>Preview</title><p><a href="/">To the preview</a></p>`

// use takes the code of a link, and returns the secret of a signed-in browser.
func (p *preview) use(code string) (secret string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := find(p.links, code)
	if at < 0 {
		return "", false
	}
	p.links = slices.Delete(p.links, at, at+1)
	return issue(&p.browsers, p.Expires), true
}

// pass serves a request by the program inside.
func (p *preview) pass(w http.ResponseWriter, r *http.Request) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("More than %d requests to this preview are open.", maxRequests))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	// Streams of events last as long as the preview, and reading on only serves to notice that the browser has gone.
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(p.Expires.Add(time.Minute))
	_ = c.SetWriteDeadline(p.Expires.Add(time.Minute)) // a recorder of a test has none
	r.Body = http.MaxBytesReader(w, r.Body, maxUpload)
	p.proxy.ServeHTTP(final{w}, r.WithContext(ctx))
}

// ownHeaders are those of Flynn's own answers.
func ownHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// refuse answers in Flynn's own words.
func refuse(w http.ResponseWriter, status int, text string) {
	ownHeaders(w.Header())
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
