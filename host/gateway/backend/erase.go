package backend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Erase implements gateway.People. The person is signed out and unpaired first, so that nothing new comes while the rest goes. An erasure
// that was interrupted is completed by another one.
func (p People) Erase(ctx context.Context, sender message.SenderKey, by string) (gateway.Erased, error) {
	var gone gateway.Erased
	all := p.Persons(sender)
	for _, id := range all {
		gone.SignIns += len(p.SignIns.SignIns(id))
		if err := errors.Join(p.SignIns.EndAll(ctx, id, by), p.Pairings.Erase(ctx, id, by)); err != nil {
			return gone, err
		}
	}
	keys, err := p.Store.SessionsOf(ctx, all...)
	if err != nil {
		return gone, err
	}
	for _, key := range keys {
		err := p.Keeper.Delete(ctx, key, by, true)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return gone, err
		}
		if err := p.Files.RemoveWorkspace(key.Parse().Workspace()); err != nil {
			return gone, err
		}
		gone.Sessions++
	}
	notes, err := p.Store.ForgetNotes(ctx, memory.NoteQuery{Persons: memory.Scopes(all)})
	gone.Notes = len(notes)
	if err != nil {
		return gone, err
	}
	for _, id := range all {
		n, err := p.Media.Disown(ctx, id)
		gone.Files += n
		if err != nil {
			return gone, err
		}
	}
	return gone, p.Store.AddAudit(ctx, []consent.AuditRow{{
		At: time.Now().UTC(), Kind: consent.AuditErased, Subject: string(sender), Actor: by,
		Detail: fmt.Sprintf("%d sessions, %d notes, %d files, %d sign-ins", gone.Sessions, gone.Notes, gone.Files, gone.SignIns),
	}})
}
