package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// ImportPath is the path to which exported sessions are posted.
const ImportPath = "/api/v1/sessions/import"

// MaxImport bounds the file of a session that a running host imports, in bytes: it is read as a whole.
const MaxImport = 64 << 20

// Bounds of an import, and of a deletion with the wait for the turns that it stops. Both are shorter than writeTimeout.
const (
	importTimeout = 25 * time.Second
	deleteTimeout = 25 * time.Second
)

// ErrBadFile is the error of a file that is not an export.
var ErrBadFile = errors.New("the file is not an exported session")

// ImportedSession is an imported session.
type ImportedSession struct {
	Key   message.SessionKey `json:"key"`
	Agent string             `json:"agent"`
	Turns int                `json:"turns"`
	Last  time.Time          `json:"last"`
}

// Sessions imports and deletes sessions.
type Sessions interface {
	// ImportSession imports a session: ErrBadFile, or store.ErrConflict while a turn of its conversation runs.
	ImportSession(ctx context.Context, file io.Reader) (ImportedSession, error)
	// DeleteSession deletes a session: store.ErrNotFound, or store.ErrConflict while a turn of its conversation runs, unless stop is true,
	// which ends the turn first.
	DeleteSession(ctx context.Context, key message.SessionKey, by string, stop bool) error
}

// DeleteSessionPath is the path to which DeleteSession is posted.
const DeleteSessionPath = "/api/v1/sessions/delete"

// DeleteSession is a request to delete a session.
type DeleteSession struct {
	Key  message.SessionKey `json:"key"`
	Stop bool               `json:"stop,omitempty"` // a running turn first
}

func (s *Server) deleteSession(ctx context.Context, _ *http.Request, body DeleteSession) (any, error) {
	if body.Key == "" {
		return nil, badRequest("name a session by its key")
	}
	return map[string]bool{"deleted": true}, s.backend.Sessions.DeleteSession(ctx, body.Key, ownerKey(ChannelTerminal), body.Stop)
}

// DeleteConversation is a request to delete all sessions of a conversation.
type DeleteConversation struct {
	Channel      string `json:"channel"`
	Conversation string `json:"conversation"`
	Stop         bool   `json:"stop,omitempty"` // a running turn first
}

func (s *Server) deleteConversation(ctx context.Context, _ *http.Request, body DeleteConversation) (any, error) {
	if !validName(body.Channel) || !validName(body.Conversation) {
		return nil, badRequest("name a channel and a conversation")
	}
	err := s.backend.Conversations.DeleteConversation(ctx, body.Channel, body.Conversation, ownerKey(ChannelWeb), body.Stop)
	return map[string]bool{"deleted": true}, err
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
