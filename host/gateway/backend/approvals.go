package backend

import (
	"context"
	"errors"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Approvals are the requests that wait for a person, and the grants that people gave.
type Approvals struct {
	Service *approval.Service
	Store   interface {
		ListAudit(ctx context.Context, f consent.AuditFilter) ([]consent.AuditRow, error)
	}
}

var _ gateway.Approvals = Approvals{}

// Approvals implements gateway.Approvals.
func (a Approvals) Approvals(ctx context.Context) ([]consent.Approval, error) {
	return a.Service.Pending(ctx)
}

// Decide implements gateway.Approvals.
func (a Approvals) Decide(ctx context.Context, id string, grant bool, by string) error {
	return answered(a.Service.Decide(ctx, id, grant, by))
}

// Grant implements gateway.Approvals.
func (a Approvals) Grant(ctx context.Context, id, scope string, span time.Duration, pattern, by string) error {
	return answered(a.Service.Grant(ctx, id, approval.Lease{Scope: consent.GrantScope(scope), For: span, Pattern: pattern}, by))
}

// answered turns an error of approvals into one of the gateway.
func answered(err error) error {
	switch {
	case errors.Is(err, approval.ErrDecided), errors.Is(err, approval.ErrExpired), errors.Is(err, approval.ErrGone):
		return as(err, store.ErrConflict)
	case errors.Is(err, approval.ErrNoLease):
		return as(err, gateway.ErrBadGrant)
	case errors.Is(err, approval.ErrNoGrant):
		return as(err, store.ErrNotFound)
	}
	return err
}

// Offer implements gateway.Approvals.
func (a Approvals) Offer(request consent.Approval) gateway.Offer {
	o := a.Service.Offer(request)
	return gateway.Offer{
		MaySession: o.Session, MayStanding: o.Standing, NotSession: o.NotSession, NotStanding: o.NotStanding,
		SessionCovers: o.SessionCovers, StandingCovers: o.StandingCovers, SessionShell: o.SessionShell, Unshown: o.Unshown, NotHeld: o.NotHeld,
	}
}

// Grants implements gateway.Approvals.
func (a Approvals) Grants(ctx context.Context) ([]gateway.Grant, error) {
	list, err := a.Service.Grants(ctx)
	var out []gateway.Grant
	for _, g := range list {
		out = append(out, gateway.Grant{Grant: g, Open: g.Open(time.Now()), Covers: approval.Covers(g)})
	}
	return out, err
}

// Revoke implements gateway.Approvals.
func (a Approvals) Revoke(ctx context.Context, id, by string) error {
	return answered(a.Service.Revoke(ctx, id, by))
}

// Audit implements gateway.Approvals.
func (a Approvals) Audit(ctx context.Context, f consent.AuditFilter) ([]consent.AuditRow, error) {
	return a.Store.ListAudit(ctx, f)
}
