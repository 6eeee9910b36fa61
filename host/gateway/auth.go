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

// caller returns the caller of a token.
func (s *Server) caller(given string) (Caller, bool) {
	if matches(s.token, given) {
		return holder, true
	}
	if s.backend.SignIns == nil || len(given) > maxToken {
		return Caller{}, false
	}
	c, ok := s.backend.SignIns.Caller(given)
	return c, ok && c.SignIn != ""
}

// check returns the caller of a right token, or else the HTTP status of the refusal.
func (s *Server) check(given, by string) (Caller, int) {
	if c, ok := s.caller(given); ok {
		return c, 0
	}
	s.metrics.FailedTokens.Inc()
	if !s.failures.Allow() {
		return Caller{}, http.StatusTooManyRequests
	}
	s.log.Warn("gateway refused a token", "by", by)
	return Caller{}, http.StatusUnauthorized
}

// authorized lets a request through that carries a token as a bearer: this machine's, or that of a sign-in.
func (s *Server) authorized(next http.HandlerFunc) http.Handler {
	return s.authorizedOr(writeError, next)
}

// forHolder lets only requests through that carry the token of this machine. Such paths have no roles.
func (s *Server) forHolder(refuse func(w http.ResponseWriter, status int, code, text string), next http.HandlerFunc) http.Handler {
	return s.authorizedOr(refuse, func(w http.ResponseWriter, r *http.Request) {
		if CallerOf(r.Context()) != holder {
			refuse(w, http.StatusForbidden, CodeForbidden, "the token of a sign-in is for the console")
			return
		}
		next(w, r)
	})
}

// authorizedOr is authorized with a form of its own for refusals.
func (s *Server) authorizedOr(refuse func(w http.ResponseWriter, status int, code, text string), next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			given = ""
		}
		switch c, status := s.check(given, "http"); status {
		case 0:
			ctx := WithCaller(r.Context(), c)
			if c.SignIn != "" {
				ctx = withAgain(ctx, func() (Caller, bool) { return s.caller(given) })
			}
			next(w, r.WithContext(ctx))
		case http.StatusTooManyRequests:
			w.Header().Set("Retry-After", "1")
			refuse(w, status, CodeLimited, "too many wrong tokens; wait a second")
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="flynn"`)
			refuse(w, status, CodeUnauthorized, "wrong token: send the one in the token file, as Authorization: Bearer TOKEN")
		}
	})
}
