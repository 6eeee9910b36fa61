package gateway

import (
	"net/http"
	"strings"

	"golang.org/x/time/rate"
)

// Failed tokens are answered at this rate. The right token always passes: with 256 random bits there is nothing to
// guess, and a limit that shut the owner out would be a gift to any other program on the machine.
const (
	failuresPerSecond = 1
	failuresBurst     = 10
)

// failures limits what wrong tokens cost: beyond the rate they are neither logged nor answered in detail.
type failures struct{ limit *rate.Limiter }

func newFailures() failures {
	return failures{rate.NewLimiter(failuresPerSecond, failuresBurst)}
}

// check returns 0 for the right token and otherwise the HTTP status of the refusal.
func (s *Server) check(given, door string) int {
	if matches(s.token, given) {
		return 0
	}
	s.metrics.failedTokens.Inc()
	if !s.failures.limit.Allow() {
		return http.StatusTooManyRequests
	}
	s.log.Warn("gateway refused a token", "door", door)
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
			refuse(w, status, CodeUnauthorized, "no such token: send that of the token file, Authorization: Bearer TOKEN")
		}
	})
}
