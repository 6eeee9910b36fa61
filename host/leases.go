package host

import (
	"context"
	"errors"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/approval"
)

// answered puts the errors of an answer into the gateway's words.
func answered(err error) error {
	switch {
	case errors.Is(err, approval.ErrDecided), errors.Is(err, approval.ErrExpired), errors.Is(err, approval.ErrGone):
		return worded{err.Error(), errors.Join(store.ErrConflict, err)}
	case errors.Is(err, approval.ErrNoLease):
		return worded{err.Error(), errors.Join(gateway.ErrBadGrant, err)}
	case errors.Is(err, approval.ErrNoGrant):
		return worded{err.Error(), errors.Join(store.ErrNotFound, err)}
	}
	return err
}

// Grant implements gateway.Backend.
func (b backend) Grant(ctx context.Context, id, scope string, span time.Duration, pattern, by string) error {
	return answered(b.h.desk.Grant(ctx, id, approval.Lease{Scope: store.GrantScope(scope), For: span, Pattern: pattern}, by))
}

// Offer implements gateway.Backend.
func (b backend) Offer(a store.Approval) gateway.Offer {
	o := b.h.desk.Offer(a)
	return gateway.Offer{
		MaySession: o.Session, MayStanding: o.Standing, NotSession: o.NotSession, NotStanding: o.NotStanding,
		SessionCovers: o.SessionCovers, StandingCovers: o.StandingCovers, SessionShell: o.SessionShell, Unshown: o.Unshown,
	}
}

// Grants implements gateway.Backend.
func (b backend) Grants(ctx context.Context) ([]gateway.Grant, error) {
	list, err := b.h.desk.Grants(ctx)
	var out []gateway.Grant
	for _, g := range list {
		out = append(out, gateway.Grant{Grant: g, Open: g.Open(time.Now()), Covers: approval.Covers(g)})
	}
	return out, err
}

// Revoke implements gateway.Backend.
func (b backend) Revoke(ctx context.Context, id, by string) error {
	return answered(b.h.desk.Revoke(ctx, id, by))
}

// Audit implements gateway.Backend.
func (b backend) Audit(ctx context.Context, f store.AuditFilter) ([]store.AuditRow, error) {
	return b.h.store.ListAudit(ctx, f)
}
