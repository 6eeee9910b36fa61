package host

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/channel/command"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// maxNotes is the bound of the configuration in force.
func (h *Host) maxNotes() int {
	if g := h.current.Load(); g != nil {
		return g.config.Memory.MaxNotes
	}
	return 0
}

// compact carries out an order to compact the conversation of a message.
func (h *Host) compact(ctx context.Context, at store.Place, row store.InboxRow) (c command.Compaction, err error) {
	gen := h.current.Load().Generation
	c.Text, c.Summary, c.Applied, err = h.runner.Compact(ctx, gen, at, row.Message, store.CommandTurn(row.ID))
	return c, err
}

// Forget implements gateway.Memory.
func (b backend) Forget(ctx context.Context, f gateway.Forget) ([]store.Note, error) {
	notes, err := forget(ctx, b.h.store, f)
	if len(notes) > 0 {
		b.h.log.Info("notes forgotten by the operator", "notes", len(notes))
	}
	return notes, err
}

var _ gateway.Memory = backend{}

func forget(ctx context.Context, s store.Memory, f gateway.Forget) ([]store.Note, error) {
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

// Notes reads what agents remember from the store of a host that may be running.
func Notes(ctx context.Context, c *config.Config, q store.NoteQuery) ([]store.Note, error) {
	return read(ctx, c, func(r *sqlite.Reader) ([]store.Note, error) { return r.SearchNotes(ctx, q) })
}

// ForgetAtRest deletes notes from the store of a host that does not run.
func ForgetAtRest(ctx context.Context, c *config.Config, f gateway.Forget) (_ []store.Note, err error) {
	s, err := sqlite.Open(ctx, c.Store.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return forget(ctx, s, f)
}
