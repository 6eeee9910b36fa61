// Package modeltest is a fake model server for tests. It speaks the wire formats of Anthropic's Messages API and of
// OpenAI's Chat Completions, streaming and not, and misbehaves on request the way real servers do.
//
// Start with New and Server.Script: every answer is scripted. The server checks requests by the rules of the real
// APIs, so that a transcript that passes here passes there.
package modeltest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/flynnhost/flynn/host/config"
)

// Key is the API key of Config, which the server requires.
const Key = "sk-test-0123456789abcdef"

// Server answers with a script.
type Server struct {
	URL  string
	done chan struct{} // closed at the end of the test, releases stalled answers

	mu       sync.Mutex
	script   []Reply
	requests []Request
}

// Request is one received request.
type Request struct {
	Path   string
	From   string // address of the client's end of the connection
	Header http.Header
	Body   []byte
}

// JSON decodes the body into v and fails the test if it cannot.
func (r Request) JSON(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(r.Body, v); err != nil {
		t.Fatalf("decode the request: %v\n%s", err, r.Body)
	}
}

// New starts a server on a loopback port. It ends with the test.
func New(t testing.TB) *Server {
	s := &Server{done: make(chan struct{})}
	ts := httptest.NewServer(s)
	s.URL = ts.URL
	t.Cleanup(func() {
		close(s.done)
		ts.Close()
	})
	return s
}

// Script appends replies. Each request takes one; the last stays and answers all that follow.
func (s *Server) Script(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, replies...)
}

// Requests returns the requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Config is a tier that reaches the server through the provider, "anthropic" or "openai".
func (s *Server) Config(provider string) config.Model {
	base := s.URL
	if provider == "openai" {
		base += "/v1"
	}
	return config.Model{Provider: provider, Model: "test-model", BaseURL: base, APIKey: Key}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return
	}
	reply := s.take(Request{Path: r.URL.Path, From: r.RemoteAddr, Header: r.Header.Clone(), Body: body})
	f, ok := formatOf(r)
	if !ok {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	switch problem := f.check(body); {
	case f.key(r.Header) != Key:
		reply = Reply{Fail: BadKey}
	case problem != "":
		reply = Reply{Fail: BadRequest, Text: problem}
	}
	s.write(w, r, f.render(reply, streams(body)), reply)
}

func (s *Server) take(r Request) Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	if len(s.script) == 0 {
		return Reply{Text: "nothing is scripted"}
	}
	reply := s.script[0]
	if len(s.script) > 1 {
		s.script = s.script[1:]
	}
	return reply
}

func streams(body []byte) bool {
	var fields struct{ Stream bool }
	return json.Unmarshal(body, &fields) == nil && fields.Stream
}

// rendered is a correct response.
type rendered struct {
	status      int
	contentType string
	body        []byte
}

// write sends a response with the faults that the reply asks for.
func (s *Server) write(w http.ResponseWriter, r *http.Request, out rendered, reply Reply) {
	out = reply.override(out)
	h := w.Header()
	h.Set("Content-Type", out.contentType)
	for key, values := range reply.Header {
		h[http.CanonicalHeaderKey(key)] = values
	}
	w.WriteHeader(out.status)
	flush := func() { _ = http.NewResponseController(w).Flush() }
	flush()
	if reply.Cut > 0 || reply.Stall {
		out.body = out.body[:min(reply.Cut, len(out.body))]
	}
	size := reply.Chunk
	if size <= 0 {
		size = max(len(out.body), 1)
	}
	for piece := range slices.Chunk(out.body, size) {
		flush() // the earlier pieces: the last one, the tail and the end of the response go out as one
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
	_, _ = io.WriteString(w, reply.Tail)
	if reply.Stall || reply.Cut > 0 {
		flush()
	}
	switch {
	case reply.Stall:
		select {
		case <-r.Context().Done():
		case <-s.done:
		}
	case reply.Cut > 0 && !reply.CutCleanly:
		panic(http.ErrAbortHandler) // the server closes the connection in the middle of the body
	}
}
