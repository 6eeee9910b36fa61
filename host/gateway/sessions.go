package gateway

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// ImportPath is the path to which exported sessions are posted.
const ImportPath = "/api/v1/sessions/import"

// MaxImport bounds the file of a session that a running host imports, in bytes: it is read as a whole.
const MaxImport = 64 << 20

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
