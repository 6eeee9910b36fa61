package host

import (
	"context"

	"github.com/flynnhost/flynn/host/channel/command"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
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
	notes, err := f.From(ctx, b.h.store)
	if len(notes) > 0 {
		b.h.log.Info("notes forgotten by the operator", "notes", len(notes))
	}
	return notes, err
}

var _ gateway.Memory = backend{}
