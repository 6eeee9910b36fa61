package slacktest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[method] = append(s.faults[method], faults...)
}

// fault counts the call and takes its fault.
func (s *Server) fault(method string) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[method]++
	s.wake()
	list := s.faults[method]
	if len(list) == 0 {
		return Fault{}
	}
	s.faults[method] = list[1:]
	return list[0]
}

// before applies what happens instead of the call and reports whether that was all.
func (f Fault) before(w http.ResponseWriter, r *http.Request) bool {
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
			return true
		}
	}
	switch {
	case f.RetryAfter > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
		w.WriteHeader(http.StatusTooManyRequests)
		reply(w, object{"ok": false, "error": "ratelimited"})
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

func reply(w http.ResponseWriter, v any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	_ = json.NewEncoder(w).Encode(v)
}
