package rest

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/observe/hostlog"
)

// logs shows the last records of the host's log.
type logs struct{ gateway.Logs }

// A warning is repeated if it was logged so many times within a time.
const (
	RepeatedAtLeast = 5
	RepeatedWithin  = time.Hour
)

func (l logs) register(r *registrar) {
	const subject = "Logs"
	type filter struct {
		Cursor  string `query:"cursor" maxLength:"20" pattern:"^[0-9]*$" doc:"The next of an earlier page, also when it was the last: only later records"`
		Level   string `query:"level" enum:"debug,info,warn,error" default:"debug" doc:"The lowest"`
		Area    string `query:"area" maxLength:"256" doc:"The part of the host that logged it"`
		Channel string `query:"channel" maxLength:"256"`
		Session string `query:"session" maxLength:"1024"`
		Turn    string `query:"turn" maxLength:"256"`
		Limit   int    `query:"limit" minimum:"1" maximum:"2000" default:"2000"`
	}
	add(r, Operation{ID: "list-logs", Method: http.MethodGet, Path: "/logs", Subject: subject, Least: owner,
		Summary: "The last records of the host's log, oldest first; the next page has those that come later"},
		func(_ context.Context, _ gateway.Caller, in *filter) (page gateway.Page[hostlog.Record], err error) {
			after, _ := strconv.ParseUint(in.Cursor, 10, 64) // too large a number is of an earlier host, as any is that is above the last
			f := hostlog.Filter{After: after, Area: in.Area, Channel: in.Channel, Session: in.Session, Turn: in.Turn, Limit: in.Limit}
			_ = f.Level.UnmarshalText([]byte(in.Level)) // one of the four
			if in.Cursor != "" {                        // the first of those that come later, and not the last
				f.Limit = 0
			}
			page.Items, page.Next = l.Records(f), in.Cursor
			page.Items = page.Items[:min(len(page.Items), in.Limit)]
			if n := len(page.Items); n > 0 {
				page.Next = strconv.FormatUint(page.Items[n-1].Seq, 10)
			}
			return whole(page), nil
		})
	add(r, Operation{ID: "list-repeats", Method: http.MethodGet, Path: "/logs/repeats", Subject: subject, Least: owner,
		Summary: "The warnings and errors that the log repeated within the last hour"},
		func(context.Context, gateway.Caller, *struct{}) ([]hostlog.Repeat, error) {
			return orEmpty(l.Repeats(time.Now().Add(-RepeatedWithin), RepeatedAtLeast), nil)
		})
}
