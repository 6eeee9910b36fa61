package backend

import (
	"context"
	"log/slog"
	"time"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/gateway"
)

// Memory is what agents remember.
type Memory struct {
	Store interface {
		SearchNotes(ctx context.Context, q memory.NoteQuery) ([]memory.Note, error)
		MendNote(ctx context.Context, id int64, was, text, by string, now time.Time) (memory.Note, error)
		ForgetNotes(ctx context.Context, q memory.NoteQuery) ([]memory.Note, error)
	}
	Log *slog.Logger
}

var _ gateway.Memory = Memory{}

// Notes implements gateway.Memory.
func (m Memory) Notes(ctx context.Context, q memory.NoteQuery) ([]memory.Note, error) {
	return m.Store.SearchNotes(ctx, q)
}

// MendNote implements gateway.Memory.
func (m Memory) MendNote(ctx context.Context, id int64, was, text, by string) (memory.Note, error) {
	n, err := m.Store.MendNote(ctx, id, was, text, by, time.Now())
	if err == nil {
		m.Log.Info("note mended", "note", id, "by", by)
	}
	return n, err
}

// Forget implements gateway.Memory.
func (m Memory) Forget(ctx context.Context, f gateway.Forget) ([]memory.Note, error) {
	notes, err := f.From(ctx, m.Store)
	if len(notes) > 0 {
		m.Log.Info("notes forgotten by the operator", "notes", len(notes))
	}
	return notes, err
}
