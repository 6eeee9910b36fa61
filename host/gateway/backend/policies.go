package backend

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/history"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
)

// Policies are the policies in force.
type Policies struct {
	Engine interface {
		Status() []policy.Status
		Rollback(ctx context.Context, name string, choose func() (file string, err error), by string) (policy.Status, error)
		Clear(ctx context.Context, name, by string) (policy.Status, error)
	}
	Store interface {
		PolicyModule(ctx context.Context, digest string) (journal.Module, error)
		ListPolicyChanges(ctx context.Context, f journal.ChangeFilter) ([]journal.Change, error)
	}
}

var _ gateway.Policies = Policies{}

// RollbackPolicy implements gateway.Policies.
func (p Policies) RollbackPolicy(ctx context.Context, name string, r gateway.Rollback) (gateway.PolicyStatus, error) {
	st, err := p.rollback(ctx, name, r)
	switch {
	case errors.Is(err, policy.ErrUnknown):
		return gateway.PolicyStatus{}, as(err, store.ErrNotFound)
	case errors.Is(err, policy.ErrNothing):
		return gateway.PolicyStatus{}, as(err, store.ErrConflict)
	case err != nil:
		return gateway.PolicyStatus{}, err
	}
	return p.status(ctx, st), nil
}

func (p Policies) rollback(ctx context.Context, name string, r gateway.Rollback) (policy.Status, error) {
	if r.Clear {
		return p.Engine.Clear(ctx, name, policy.ByCommand)
	}
	// By the time the engine calls the function it has recorded the module in force.
	return p.Engine.Rollback(ctx, name, func() (string, error) {
		changes, err := p.Store.ListPolicyChanges(ctx, journal.ChangeFilter{Policy: name})
		if err != nil {
			return "", err
		}
		return history.Earlier(changes, name, r.To)
	}, policy.ByCommand)
}

func (p Policies) statuses(ctx context.Context) []gateway.PolicyStatus {
	out := []gateway.PolicyStatus{}
	for _, s := range p.Engine.Status() {
		out = append(out, p.status(ctx, s))
	}
	return out
}

func (p Policies) status(ctx context.Context, from policy.Status) gateway.PolicyStatus {
	s := gateway.PolicyStatus{
		Name: from.Name, Path: from.Path, Kinds: from.Kinds, Digest: from.Digest, File: from.File, Pinned: from.Pinned, State: from.State,
		Detail: from.Error, OK: from.Error == "", Since: from.LoadedAt, Decisions: from.Decisions, Failures: from.Failures, Shadow: from.Shadow,
		ShadowOf: from.ShadowOf, Stateful: from.Stateful,
	}
	switch from.State {
	case policy.StateLoading:
		s.Detail = from.Warning
	case policy.StatePinned:
		s.Detail = history.RolledBack(from.Name)
	}
	if m, err := p.Store.PolicyModule(ctx, from.Digest); err == nil {
		s.Version = m.Version
	}
	return s
}
