package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/host/observe/hostlog"
)

// Logs are the last records of the host's log.
type Logs interface {
	Records(f hostlog.Filter) []hostlog.Record
	// Repeats returns the warnings and errors that were logged at least so many times since a time.
	Repeats(since time.Time, least int) []hostlog.Repeat
}

// maxLogRecords bounds one answer.
const maxLogRecords = 2000

func (s *Server) logs(_ context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	f := hostlog.Filter{
		Area: q.Get("area"), Channel: q.Get("channel"), Session: q.Get("session"), Turn: q.Get("turn"), Level: slog.LevelDebug, Limit: maxLogRecords,
	}
	if text := q.Get("level"); text != "" {
		if err := f.Level.UnmarshalText([]byte(text)); err != nil {
			return nil, badRequest("level must be debug, info, warn or error")
		}
	}
	if text := q.Get("after"); text != "" {
		var err error
		if f.After, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, badRequest("after must be the seq of a record")
		}
	}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxLogRecords {
			return nil, badRequest(fmt.Sprintf("limit must be 1 to %d", maxLogRecords))
		}
		f.Limit = n
	}
	return orEmpty(s.backend.Logs.Records(f)), nil
}

// repeatedAtLeast is how often a warning must be logged within repeatedWithin to be listed as repeated.
const (
	repeatedAtLeast = 5
	repeatedWithin  = time.Hour
)

// repeats lists the warnings and errors that the log repeats.
func (s *Server) repeats(context.Context, *http.Request) (any, error) {
	return orEmpty(s.backend.Logs.Repeats(time.Now().Add(-repeatedWithin), repeatedAtLeast)), nil
}
