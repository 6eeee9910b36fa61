package openai

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/gateway/api"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
)

// Limits of a stream of events.
const (
	writeTimeout = 30 * time.Second // of one event
	keepAlive    = 15 * time.Second // the longest silence
	backlog      = 1024             // events that wait for a slow client
)

// stream answers as server-sent events.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, q api.Question, req request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	pieces := make(chan message.Event, backlog)
	q.Watch = func(e message.Event) {
		select {
		case pieces <- e:
		case <-ctx.Done():
		}
	}
	type result struct {
		api.Settlement
		err error
	}
	done := make(chan result, 1)
	go func() {
		s, err := h.service.Ask(ctx, q)
		done <- result{s, err}
	}()
	out := &events{w: w, rc: http.NewResponseController(w), model: req.Model, created: h.now().Unix(), id: "chatcmpl-" + rand.Text()}
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case e := <-pieces:
			out.event(e)
		case <-tick.C:
			out.comment()
		case end := <-done:
			for len(pieces) > 0 {
				out.event(<-pieces)
			}
			out.end(end.Settlement, end.err, req.Options != nil && req.Options.IncludeUsage)
			return
		}
		if out.failed { // the client has gone
			cancel()
			<-done
			return
		}
	}
}

// events writes the chunks of one answer.
type events struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	id      string
	model   string
	created int64

	begun  bool
	step   strings.Builder // text since the last call of a tool
	failed bool
}

// event sends an event of the turn. Sent text cannot be taken back: if a model starts its answer again, the text says so.
func (o *events) event(e message.Event) {
	o.names(e.Turn)
	switch e.Kind {
	case message.TextDelta:
		o.text(e.Text)
	case message.TextReset:
		if o.step.Len() > 0 {
			o.text("\n\n(The answer was cut off and starts again.)\n\n")
		}
		o.step.Reset()
	case message.ToolCall:
		if o.step.Len() > 0 {
			o.text("\n\n")
		}
		o.step.Reset()
	}
}

// names gives the answer the turn's id, if no chunk has another one already.
func (o *events) names(turn string) {
	if !o.begun && turn != "" {
		o.id = "chatcmpl-" + turn
	}
}

func (o *events) text(s string) {
	if s == "" {
		return
	}
	o.begin()
	o.step.WriteString(s)
	o.chunk(chatCompletion{Choices: []choice{{Delta: &answer{Content: s}}}})
}

// begin sends the headers and the first chunk.
func (o *events) begin() {
	if o.begun {
		return
	}
	o.begun = true
	o.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	o.w.WriteHeader(http.StatusOK)
	o.chunk(chatCompletion{Choices: []choice{{Delta: &answer{Role: "assistant"}}}})
}

// end sends the part of the answer that was not streamed, and closes.
func (o *events) end(s api.Settlement, err error, withUsage bool) {
	o.names(s.Turn)
	switch {
	case err != nil && !o.begun:
		refuse(o.w, err)
		return
	case s.Failed && !o.begun:
		failed(o.w, s)
		return
	case err != nil || s.Failed:
		text := s.Text
		if err != nil {
			text = "the host could not continue"
		}
		o.data(map[string]apiError{"error": {Message: text, Type: "server_error", Code: "turn_failed"}})
		return
	}
	o.text(missing(s.Text, o.step.String()))
	o.begin()
	o.chunk(chatCompletion{Choices: []choice{{Delta: &answer{}, FinishReason: stop()}}})
	if withUsage {
		o.chunk(chatCompletion{Choices: []choice{}, Usage: used(s.Usage)})
	}
	o.write("data: [DONE]\n\n")
}

// missing is the part of an answer that the client has not received.
func missing(whole, sent string) string {
	if rest, ok := strings.CutPrefix(whole, sent); ok {
		return rest
	}
	return "\n\n" + whole
}

func (o *events) chunk(c chatCompletion) {
	c.ID, c.Object, c.Created, c.Model = o.id, "chat.completion.chunk", o.created, o.model
	o.data(c)
}

func (o *events) data(v any) {
	data, err := jsonform.Marshal(v)
	if err != nil { // impossible for the types of this package
		panic(err)
	}
	o.write(fmt.Sprintf("data: %s\n\n", data))
}

func (o *events) comment() {
	if !o.begun {
		o.begin()
		return
	}
	o.write(": working\n\n")
}

func (o *events) write(s string) {
	_ = o.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := io.WriteString(o.w, s); err != nil {
		o.failed = true
		return
	}
	if o.rc.Flush() != nil {
		o.failed = true
	}
}
