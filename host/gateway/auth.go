package gateway

import (
	"net/http"
	"strings"
)

// Wrong tokens are answered at this rate. The right token always passes: with 256 random bits there is nothing to
// guess, and a limit that shut the owner out would help any hostile program on the machine.
const (
	failuresPerSecond = 1
	failuresBurst     = 10
)

// check returns 0 for the right token and otherwise the HTTP status of the refusal.
func (s *Server) check(given, by string) int {
	if matches(s.token, given) {
		return 0
	}
	s.metrics.FailedTokens.Inc()
	if !s.failures.Allow() {
		return http.StatusTooManyRequests
	}
	s.log.Warn("gateway refused a token", "by", by)
	return http.StatusUnauthorized
}

// authorized lets a request through that carries the token as a bearer.
func (s *Server) authorized(next http.HandlerFunc) http.Handler {
	return s.authorizedOr(writeError, next)
}

// authorizedOr is authorized with a form of its own for refusals.
func (s *Server) authorizedOr(refuse func(w http.ResponseWriter, status int, code, text string), next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			given = ""
		}
		switch status := s.check(given, "http"); status {
		case 0:
			next(w, r)
		case http.StatusTooManyRequests:
			w.Header().Set("Retry-After", "1")
			refuse(w, status, CodeLimited, "too many wrong tokens; wait a second")
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="flynn"`)
			refuse(w, status, CodeUnauthorized, "wrong token: send the one in the token file, as Authorization: Bearer TOKEN")
		}
	})
}
