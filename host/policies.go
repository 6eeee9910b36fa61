package host

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/history"
	"github.com/flynnhost/flynn/host/store"
)

// policyStatuses are the policies in force, as the gateway shows them.
func (h *Host) policyStatuses(ctx context.Context) []gateway.PolicyStatus {
	out := []gateway.PolicyStatus{}
	for _, p := range h.policies.Status() {
		out = append(out, h.policyStatus(ctx, p))
	}
	return out
}

func (h *Host) policyStatus(ctx context.Context, p policy.Status) gateway.PolicyStatus {
	s := gateway.PolicyStatus{
		Name: p.Name, Path: p.Path, Kinds: p.Kinds, Digest: p.Digest, File: p.File, Pinned: p.Pinned, State: p.State, Detail: p.Error, OK: p.Error == "",
		Since: p.LoadedAt, Decisions: p.Decisions, Failures: p.Failures, Shadow: p.Shadow, ShadowOf: p.ShadowOf, Stateful: p.Stateful,
	}
	switch p.State {
	case policy.StateLoading:
		s.Detail = p.Warning
	case policy.StatePinned:
		s.Detail = history.RolledBack(p.Name)
	}
	if m, err := h.store.PolicyModule(ctx, p.Digest); err == nil {
		s.Version = m.Version
	}
	return s
}

var _ gateway.Policies = backend{}

// RollbackPolicy implements gateway.Policies.
func (b backend) RollbackPolicy(ctx context.Context, name string, r gateway.Rollback) (gateway.PolicyStatus, error) {
	st, err := b.rollback(ctx, name, r)
	switch {
	case errors.Is(err, policy.ErrUnknown):
		return gateway.PolicyStatus{}, answeredAs{err, store.ErrNotFound}
	case errors.Is(err, policy.ErrNothing):
		return gateway.PolicyStatus{}, answeredAs{err, store.ErrConflict}
	case err != nil:
		return gateway.PolicyStatus{}, err
	}
	return b.h.policyStatus(ctx, st), nil
}

// answeredAs is an error that the gateway answers as it does another one.
type answeredAs struct {
	error
	as error
}

func (a answeredAs) Unwrap() []error { return []error{a.error, a.as} }

func (b backend) rollback(ctx context.Context, name string, r gateway.Rollback) (policy.Status, error) {
	if r.Clear {
		return b.h.policies.Clear(ctx, name, policy.ByCommand)
	}
	// What has just come into force is in the history once the engine lets anybody change it.
	return b.h.policies.Rollback(ctx, name, func() (string, error) {
		changes, err := b.h.store.ListPolicyChanges(ctx, store.PolicyFilter{Policy: name})
		if err != nil {
			return "", err
		}
		return history.Earlier(changes, name, r.To)
	}, policy.ByCommand)
}
