package backend

import (
	"context"
	"log/slog"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/gateway"
)

// Memory is what agents remember.
type Memory struct {
	Store interface {
		ForgetNotes(ctx context.Context, q memory.NoteQuery) ([]memory.Note, error)
	}
	Log *slog.Logger
}

var _ gateway.Memory = Memory{}

// Forget implements gateway.Memory.
func (m Memory) Forget(ctx context.Context, f gateway.Forget) ([]memory.Note, error) {
	notes, err := f.From(ctx, m.Store)
	if len(notes) > 0 {
		m.Log.Info("notes forgotten by the operator", "notes", len(notes))
	}
	return notes, err
}
