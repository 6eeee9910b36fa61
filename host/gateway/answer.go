package gateway

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
)

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // it is no HTML, and what it quotes is to arrive as it is
	_ = enc.Encode(v)        // the client has gone, if it fails
}

// writeError answers {"code","message"}, like the socket's error frame.
func writeError(w http.ResponseWriter, status int, code, text string) {
	writeJSON(w, status, ServerFrame{Type: TypeError, Code: code, Message: text})
}

// answer writes v, or what the backend's error means.
func (s *Server) answer(w http.ResponseWriter, v any, err error) {
	if err == nil {
		writeJSON(w, http.StatusOK, v)
		return
	}
	code, status := errorCode(err), http.StatusServiceUnavailable
	switch code {
	case CodeNotFound:
		status = http.StatusNotFound
	case CodeNotAllowed:
		status = http.StatusUnprocessableEntity
	case CodeConflict:
		status = http.StatusConflict
	default:
		s.log.Warn("gateway request failed", "error", err)
	}
	writeError(w, status, code, err.Error())
}

// readBody decodes one strict JSON object into v, or answers why it could not. Asking for the JSON media
// type keeps plain HTML forms of other pages out a second time.
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
