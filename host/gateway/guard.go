package gateway

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// guard decides which requests reach a handler at all. Any web page can make the owner's browser send requests to a
// loopback port; these rules keep such a page out even before the token does.
//
//   - The Host must be a name of the listener. A foreign name that was rebound to 127.0.0.1 is still sent as the Host.
//   - An Origin, if there is one, must be that of the Host itself or a configured one.
//   - Sec-Fetch-Site, where the browser sends it, must be neither cross-site nor same-site, except for opening the page: another host of the
//     same site may be a preview.
type guard struct {
	hosts   []string // allowed values of Host
	origins []string // configured origins, "scheme://host[:port]"
	// previews serves origins that must never be allowed; it may be nil.
	previews PreviewOrigins
}

// newGuard allows the listener's address and "localhost" on its port, and the hosts of the configured origins.
func newGuard(addr string, origins []*url.URL, previews PreviewOrigins) guard {
	_, port, _ := net.SplitHostPort(addr)
	g := guard{hosts: []string{addr, "localhost:" + port}, previews: previews}
	if port == "80" {
		g.hosts = append(g.hosts, strings.TrimSuffix(addr, ":80"), "localhost")
	}
	for _, o := range origins {
		g.hosts = append(g.hosts, o.Host)
		g.origins = append(g.origins, o.Scheme+"://"+o.Host)
	}
	return g
}

// parseOrigins refuses anything but scheme://host[:port], and "*" with it.
func parseOrigins(list []string) ([]*url.URL, error) {
	var out []*url.URL
	for _, s := range list {
		u, err := url.Parse(strings.ToLower(s))
		bare := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
			strings.TrimRight(s, "/") == strings.TrimRight(s[:len(u.Scheme)+3+len(u.Host)], "/")
		if !bare || strings.ContainsAny(u.Host, "*@") {
			return nil, fmt.Errorf("gateway origin %q is not scheme://host[:port]; write for example \"http://localhost:9000\"", s)
		}
		out = append(out, u)
	}
	return out, nil
}

// refusal is why a request may not pass, or empty if it may.
func (g guard) refusal(r *http.Request) string {
	host := strings.ToLower(r.Host)
	if !slices.Contains(g.hosts, host) {
		return fmt.Sprintf("host %q is not served here; open http://%s, or add the address to [gateway] origins", clip(r.Host), g.hosts[0])
	}
	for _, origin := range r.Header.Values("Origin") {
		origin = strings.ToLower(origin)
		if origin != "http://"+host && !slices.Contains(g.origins, origin) {
			if _, from, _ := strings.Cut(origin, "://"); g.previews != nil && g.previews.Serves(from) {
				return "the page of a preview asks for what is the console's"
			}
			return fmt.Sprintf("origin %q is not allowed; add it to [gateway] origins if it is yours", clip(origin))
		}
	}
	if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && r.Header.Get("Origin") == "" && !navigation(r) {
		return "requests from other sites are not allowed"
	}
	return ""
}

// navigation reports whether a person followed a link to the page.
func navigation(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate"
}

// clip keeps foreign text in an error message short.
func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}

// admit wraps next with the guard and with the headers that every answer carries.
func (s *Server) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secureHeaders(w.Header())
		if why := s.guard.refusal(r); why != "" {
			s.metrics.Refused.Inc()
			s.log.Warn("gateway refused a request", "reason", why, "path", clip(r.URL.Path))
			writeError(w, http.StatusForbidden, CodeForbidden, why)
			return
		}
		// Host passed the guard, so it is safe to name here; older browsers do not count ws: as 'self'.
		w.Header().Set("Content-Security-Policy", policyHeader+"; connect-src 'self' ws://"+r.Host+" wss://"+r.Host)
		r.Body = http.MaxBytesReader(w, r.Body, bodyLimit(r))
		next.ServeHTTP(w, r)
	})
}

// policyHeader lets the page load its own files and nothing else. Trusted types without a policy make every use of
// innerHTML and the like throw, should one ever be added.
const policyHeader = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; manifest-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func secureHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policyHeader)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// bodyLimit is how many bytes a request may have.
func bodyLimit(r *http.Request) int64 {
	switch {
	case r.URL.Path == ImportPath:
		return MaxImport
	case r.URL.Path == FilesPath:
		return MaxFile
	case strings.HasPrefix(r.URL.Path, PoliciesPath) && (strings.HasSuffix(r.URL.Path, ReplaysSuffix) || strings.HasSuffix(r.URL.Path, ModuleSuffix)):
		return MaxModule
	case strings.HasPrefix(r.URL.Path, "/v1/"):
		return maxClientBody
	}
	return maxBody
}
