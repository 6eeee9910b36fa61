package backend

import (
	"context"
	"log/slog"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

// Memory is what agents remember.
type Memory struct {
	Store Notes
	Log   *slog.Logger
}

// Notes deletes what agents remember.
type Notes interface {
	ForgetNotes(ctx context.Context, q store.NoteQuery) ([]store.Note, error)
}

var _ gateway.Memory = Memory{}

// Forget implements gateway.Memory.
func (m Memory) Forget(ctx context.Context, f gateway.Forget) ([]store.Note, error) {
	notes, err := Forget(ctx, m.Store, f)
	if len(notes) > 0 {
		m.Log.Info("notes forgotten by the operator", "notes", len(notes))
	}
	return notes, err
}

// Forget deletes the notes that f chooses and returns them; with an error, those that are deleted.
func Forget(ctx context.Context, s Notes, f gateway.Forget) ([]store.Note, error) {
	var all []store.Note
	for _, q := range f.Queries() {
		notes, err := s.ForgetNotes(ctx, q)
		all = append(all, notes...)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}
