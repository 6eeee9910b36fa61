package gateway

import (
	"context"
	"errors"
	"io"
	"time"

	sessions "github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/message"
)

// ImportPath is the path to which exported sessions are posted.
const ImportPath = "/api/v1/sessions/import"

// MaxImport bounds the file of a session that a running host imports, in bytes: it is read as a whole.
const MaxImport = 64 << 20

// ErrBadFile is the error of a file that is not an export.
var ErrBadFile = errors.New("the file is not an exported session")

// SessionInfo is a session.
type SessionInfo struct {
	Key   message.SessionKey `json:"key"`
	Agent string             `json:"agent"`
	Turns int                `json:"turns"`
	Last  time.Time          `json:"last"`
}

// Sessions shows, exports, imports and deletes sessions. Their error is store.ErrNotFound if there is no such session.
type Sessions interface {
	// Sessions returns all sessions, latest first.
	Sessions(ctx context.Context) ([]SessionInfo, error)
	// Transcript returns what was said and done in a session, oldest first; limit counts turns.
	Transcript(ctx context.Context, key message.SessionKey, cursor string, limit int) (Page[sessions.Piece], error)
	// ExportSession writes a session as ImportSession reads it.
	ExportSession(ctx context.Context, key message.SessionKey, w io.Writer) error
	// ImportSession imports a session: ErrBadFile, or store.ErrConflict while a turn of its conversation runs.
	ImportSession(ctx context.Context, file io.Reader) (SessionInfo, error)
	// DeleteSession deletes a session: store.ErrNotFound, or store.ErrConflict while a turn of its conversation runs, unless stop is true,
	// which ends the turn first.
	DeleteSession(ctx context.Context, key message.SessionKey, by string, stop bool) error
}
