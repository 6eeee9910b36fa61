package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"
)

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // fails only if the client has gone
}

// writeError answers {"code","message"}, like the socket's error frame.
func writeError(w http.ResponseWriter, status int, code, text string) {
	writeJSON(w, status, ServerFrame{Type: TypeError, Code: code, Message: text})
}

// badRequest is the error of a request that a client has to correct: its text says what to send.
type badRequest string

func (e badRequest) Error() string { return string(e) }

// answer writes v, or the backend's error with the status of its class.
func (s *Server) answer(w http.ResponseWriter, v any, err error) {
	if err == nil {
		writeJSON(w, http.StatusOK, v)
		return
	}
	code := errorCode(err)
	status, ok := map[string]int{
		CodeBadRequest: http.StatusBadRequest, CodeNotFound: http.StatusNotFound, CodeNotAllowed: http.StatusUnprocessableEntity,
		CodeConflict: http.StatusConflict, CodeLimited: http.StatusTooManyRequests,
	}[code]
	if !ok {
		status = http.StatusServiceUnavailable
		s.log.Warn("gateway request failed", "error", err)
	}
	writeError(w, status, code, err.Error())
}

// get is a handler that answers with what do returns within timeout.
func (s *Server) get(timeout time.Duration, do func(ctx context.Context, r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		v, err := do(ctx, r)
		s.answer(w, v, err)
	}
}

// post is get for requests whose body is a JSON object.
func post[B any](s *Server, timeout time.Duration, do func(ctx context.Context, r *http.Request, body B) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body B
		if readBody(w, r, &body) {
			s.get(timeout, func(ctx context.Context, r *http.Request) (any, error) { return do(ctx, r, body) })(w, r)
		}
	}
}

// readBody decodes one strict JSON object into v, or answers with the error. Requiring the JSON media type keeps
// plain HTML forms of other pages out a second time.
func readBody(w http.ResponseWriter, r *http.Request, v any) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		writeError(w, http.StatusUnsupportedMediaType, CodeBadRequest, "send Content-Type: application/json")
		return false
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	err = dec.Decode(v)
	if err == nil {
		if _, extra := dec.Token(); !errors.Is(extra, io.EOF) {
			err = errors.New("something follows the JSON object")
		}
	}
	if err == nil {
		return true
	}
	status := http.StatusBadRequest
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		status = http.StatusRequestEntityTooLarge
	}
	writeError(w, status, CodeBadRequest, err.Error())
	return false
}

// orEmpty makes an empty list [] and not null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
