package host

import (
	"context"

	"github.com/flynnhost/flynn/host/access/owners"
	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/internal/event"
)

// openPairings opens the desk where strangers are let in.
func (h *Host) openPairings(ctx context.Context) (err error) {
	h.owners = owners.New(owners.Config{Store: h.store, Rules: inForce{h}.now, Log: h.log})
	h.pairings, err = pairing.Open(ctx, pairing.Config{
		Store: h.store, Log: h.log, Outbox: h.outbox, Owners: h.owners, Role: inForce{h}.pairRole, Events: &h.events,
	})
	event.On(&h.events, func(e pairing.Happened) {
		if e.Event == pairing.Revoked {
			h.runner.StopFor(e.Sender)
		}
	})
	return err
}
