package admin

import (
	"context"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// Notes returns the notes that agents remember. A host may be running.
func Notes(ctx context.Context, c *config.Config, q memory.NoteQuery) ([]memory.Note, error) {
	return read(ctx, c, func(r *sqlstore.Reader) ([]memory.Note, error) { return r.SearchNotes(ctx, q) })
}

// ForgetNotes deletes notes and returns them. It fails while a host runs.
func ForgetNotes(ctx context.Context, c *config.Config, f gateway.Forget) ([]memory.Note, error) {
	return change(ctx, c, func(s store.Store) ([]memory.Note, error) { return f.From(ctx, s) })
}
