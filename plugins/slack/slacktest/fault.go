package slacktest

import (
	"net/http"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

// Fault is a bad answer to one call.
type Fault struct {
	Status     int           // of HTTP, with an HTML page as its body
	RetryAfter time.Duration // answers 429 with this many seconds
	Error      string        // answers {"ok":false,"error":...}
	Delay      time.Duration // before anything else
	Late       bool          // the call is carried out, and then the connection is cut instead of an answer
	Garbage    bool          // the call is carried out, and the answer makes no sense
}

// Fail makes the next calls of a method answer badly, one each.
func (s *Server) Fail(method string, faults ...Fault) {
	defer s.mu.Change()()
	s.faults.Add(method, faults...)
}

// fault counts the call and takes its fault.
func (s *Server) fault(method string) Fault {
	defer s.mu.Change()()
	s.calls[method]++
	f, _ := s.faults.Take(platform.At(method))
	return f
}

// before applies what happens instead of the call and reports whether that was all.
func (f Fault) before(w http.ResponseWriter, r *http.Request) bool {
	platform.Pause(f.Delay, r.Context().Done())
	switch {
	case f.RetryAfter > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
		platform.JSON(w, http.StatusTooManyRequests, refusal("ratelimited"))
	case f.Status != 0:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(f.Status)
		_, _ = w.Write([]byte("<html>Slack has a problem</html>"))
	case f.Error != "":
		reply(w, refusal(f.Error))
	default:
		return false
	}
	return true
}

// object is a JSON object.
type object = map[string]any

func refusal(code string) object { return object{"ok": false, "error": code} }

func reply(w http.ResponseWriter, v any) { platform.JSON(w, http.StatusOK, v) }
