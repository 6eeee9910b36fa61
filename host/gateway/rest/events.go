package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/jsonform"
)

// events streams what changes, as server-sent events.
type events struct {
	gateway.Events
	open atomic.Int64 // streams
}

const (
	maxStreams   = 256
	eventsAtOnce = 500
	silence      = 15 * time.Second // between two comments
	eventTimeout = 10 * time.Second // of one write
)

func (e *events) register(r *registrar) {
	type position struct {
		After int64 `query:"after" minimum:"-1" default:"-1" doc:"The id of the last event that was seen; without it the stream begins now"`
		Last  int64 `header:"Last-Event-ID" minimum:"-1" default:"-1" doc:"The same, as browsers send it; it counts before after"`
	}
	op := r.describe(Operation{ID: "watch-events", Method: http.MethodGet, Path: "/events", Subject: "Events", Least: guest,
		Summary: "What changes, as server-sent events: first ready, then each change by its kind, and reset if what was missed is not known any more"})
	op.Responses = map[string]*huma.Response{"200": {Description: "A stream that does not end by itself",
		Content: map[string]*huma.MediaType{"text/event-stream": {}}}}
	huma.Register(r.huma, op, func(ctx context.Context, in *position) (*huma.StreamResponse, error) {
		after := in.Last
		if after < 0 {
			after = in.After
		}
		if e.open.Add(1) > maxStreams {
			e.open.Add(-1)
			return nil, problem{gateway.NewProblem(http.StatusTooManyRequests, gateway.CodeLimited, "too many streams of events are open")}
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			defer e.open.Add(-1)
			defer e.Enter()()
			request, w := humago.Unwrap(ctx)
			s := stream{events: e.Events, by: gateway.CallerOf(request.Context()), w: w, control: http.NewResponseController(w)}
			if err := s.run(request.Context(), after); err != nil {
				r.log.Debug("a stream of events ended", "error", err)
			}
		}}, nil
	})
}

// stream is one reader of events.
type stream struct {
	events  gateway.Events
	by      gateway.Caller
	w       http.ResponseWriter
	control *http.ResponseController
	after   int64
}

func (s *stream) run(ctx context.Context, after int64) error {
	_ = s.control.SetReadDeadline(time.Time{}) // that of the request, which would end the answer
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("X-Accel-Buffering", "no")
	_, kept, err := s.events.Read(ctx, 0, 0)
	if err != nil {
		return err
	}
	if s.after = after; after < 0 {
		s.after = kept.Last
	}
	lost := !kept.From(s.after)
	if lost {
		s.after = kept.Last
	}
	if err := s.write("ready", gateway.Stand{Seq: s.after, Epoch: kept.Epoch}); err != nil {
		return err
	}
	if lost {
		if err := s.write("reset", gateway.Event{Kind: "reset"}); err != nil {
			return err
		}
	}
	for {
		more := s.events.More()
		again, err := s.pass(ctx)
		if err != nil || !again && !s.wait(ctx, more) {
			return err
		}
	}
}

// pass writes the changes after those that were written; again is true if there may be more of them.
func (s *stream) pass(ctx context.Context) (again bool, err error) {
	if !gateway.Lasts(ctx) {
		return false, errSignedOut
	}
	list, kept, err := s.events.Read(ctx, s.after, eventsAtOnce)
	if err != nil {
		return false, err
	}
	if !kept.From(s.after) {
		s.after = kept.Last
		return true, s.write("reset", gateway.Event{Kind: "reset"})
	}
	for _, c := range list {
		s.after = c.Seq
		if !gateway.Visible(s.by, c) {
			continue
		}
		if err := s.write(string(c.Kind), gateway.Event{Kind: c.Kind, ID: c.ID}); err != nil {
			return false, err
		}
	}
	return len(list) == eventsAtOnce, nil
}

// errSignedOut ends a stream whose reader is not who he was, and has to show his token again.
var errSignedOut = errors.New("the caller is signed out, or has another role")

// wait returns when there is more; false means that the stream is over.
func (s *stream) wait(ctx context.Context, more <-chan struct{}) bool {
	tick := time.NewTicker(silence)
	defer tick.Stop()
	for {
		select {
		case <-more:
			return true
		case <-tick.C:
			if !gateway.Lasts(ctx) || s.send(": still here\n\n") != nil {
				return false
			}
		case <-s.events.Over():
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (s *stream) write(kind string, data any) error {
	text, err := jsonform.Marshal(data)
	if err != nil {
		return err
	}
	return s.send(fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", s.after, kind, text))
}

func (s *stream) send(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(eventTimeout)) // a recorder of tests has none
	if _, err := io.WriteString(s.w, text); err != nil {
		return err
	}
	return s.control.Flush()
}
