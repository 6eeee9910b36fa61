package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// ImportPath is where an exported session is posted.
const ImportPath = "/api/v1/sessions/import"

// MaxImport bounds the file of a session that a running host takes, in bytes: it is read as a whole.
const MaxImport = 64 << 20

// importTimeout bounds an import; it ends before the answer would be too late.
const importTimeout = 25 * time.Second

// deleteTimeout bounds a deletion, the wait for what has to end before it included; it ends before the answer would be too late.
const deleteTimeout = 25 * time.Second

// ErrBadFile is the error of a file that is no export.
var ErrBadFile = errors.New("the file is no exported session")

// ImportedSession is a session as it was taken in.
type ImportedSession struct {
	Key   string    `json:"key"`
	Agent string    `json:"agent"`
	Turns int       `json:"turns"`
	Last  time.Time `json:"last"`
}

// Sessions imports and deletes sessions.
type Sessions interface {
	// ImportSession takes a session in: ErrBadFile, or store.ErrConflict while a turn of its place runs.
	ImportSession(ctx context.Context, file io.Reader) (ImportedSession, error)
	// DeleteSession deletes a session: store.ErrNotFound, or store.ErrConflict while an answer is made in its place, which stop ends first.
	DeleteSession(ctx context.Context, key, by string, stop bool) error
}

// DeleteSessionPath is where a session is named that is to be deleted.
const DeleteSessionPath = "/api/v1/sessions/delete"

// DeleteSession is a request to delete a session.
type DeleteSession struct {
	Key  string `json:"key"`
	Stop bool   `json:"stop,omitempty"` // the answer that is being made there
}

func (s *Server) deleteSession(w http.ResponseWriter, r *http.Request) {
	var body DeleteSession
	if !readBody(w, r, &body) {
		return
	}
	if body.Key == "" {
		writeError(w, http.StatusBadRequest, CodeBadRequest, "name a session by its key")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), deleteTimeout)
	defer cancel()
	s.answer(w, map[string]bool{"deleted": true}, s.backend.Sessions.DeleteSession(ctx, body.Key, ownerKey(ChannelTerminal), body.Stop))
}

// DeleteConversation is a request to delete all that was said in a conversation.
type DeleteConversation struct {
	Channel      string `json:"channel"`
	Conversation string `json:"conversation"`
	Stop         bool   `json:"stop,omitempty"` // the answer that is being made there
}

func (s *Server) deleteConversation(w http.ResponseWriter, r *http.Request) {
	var body DeleteConversation
	if !readBody(w, r, &body) {
		return
	}
	if !validName(body.Channel) || !validName(body.Conversation) {
		writeError(w, http.StatusBadRequest, CodeBadRequest, "name a channel and a conversation")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), deleteTimeout)
	defer cancel()
	err := s.backend.Conversations.DeleteConversation(ctx, body.Channel, body.Conversation, ownerKey(ChannelWeb), body.Stop)
	s.answer(w, map[string]bool{"deleted": true}, err)
}

func (s *Server) importSession(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Content-Type") != "application/jsonl" { // which no HTML form sends
		writeError(w, http.StatusUnsupportedMediaType, CodeBadRequest, "send Content-Type: application/jsonl")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), importTimeout)
	defer cancel()
	info, err := s.backend.Sessions.ImportSession(ctx, r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		writeError(w, http.StatusRequestEntityTooLarge, CodeBadRequest, "the file is too large for a running host: stop it and import the file then")
	case errors.Is(err, ErrBadFile):
		writeError(w, http.StatusBadRequest, CodeBadRequest, err.Error())
	default:
		s.answer(w, info, err)
	}
}
