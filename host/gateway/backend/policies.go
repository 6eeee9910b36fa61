package backend

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/policy/history"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
)

// Policies are the policies in force.
type Policies struct {
	Engine interface {
		Status() []policy.Status
		Source(name string) (policy.Source, error)
		Rollback(ctx context.Context, name string, choose func() (file string, err error), by string) (policy.Status, error)
		Clear(ctx context.Context, name, by string) (policy.Status, error)
		Put(ctx context.Context, name string, write func() error, by string) (policy.Status, error)
	}
	Store interface {
		PolicyModule(ctx context.Context, digest string) (journal.Module, error)
		ListPolicyChanges(ctx context.Context, f journal.ChangeFilter) ([]journal.Change, error)
	}
	Editor *edit.Editor
}

var _ gateway.Policies = Policies{}

// RollbackPolicy implements gateway.Policies.
func (p Policies) RollbackPolicy(ctx context.Context, name string, r gateway.Rollback) (gateway.PolicyStatus, error) {
	st, err := p.rollback(ctx, name, r)
	if err != nil {
		return gateway.PolicyStatus{}, ofPolicy(err)
	}
	return p.status(ctx, st), nil
}

// ShadowPolicy implements gateway.Policies.
func (p Policies) ShadowPolicy(ctx context.Context, name string, on bool, by string) (gateway.PolicyStatus, error) {
	what := map[bool]string{true: "shadow policy ", false: "no shadow any more: policy "}[on] + name
	_, err := p.Editor.Edit(ctx, edit.Author{By: by, What: what}, func(f *edit.File, c *config.Config) error {
		return configured.SetShadow(f, c, name, on)
	})
	if err != nil {
		return gateway.PolicyStatus{}, ofPolicy(gateway.NotEdited(err))
	}
	d, err := p.Policy(ctx, name)
	return d.PolicyStatus, err
}

// ofPolicy turns an error about a policy into one of the gateway.
func ofPolicy(err error) error {
	switch {
	case errors.Is(err, policy.ErrUnknown), errors.Is(err, author.ErrNoSource):
		return as(err, store.ErrNotFound)
	case errors.Is(err, policy.ErrNothing):
		return as(err, store.ErrConflict)
	}
	return err
}

// Policies implements gateway.Policies.
func (p Policies) Policies(ctx context.Context) ([]gateway.PolicyStatus, error) {
	return p.statuses(ctx), nil
}

// maxVersions bounds the history of a policy.
const maxVersions = 100

// Policy implements gateway.Policies.
func (p Policies) Policy(ctx context.Context, name string) (gateway.PolicyDetail, error) {
	all := p.Engine.Status()
	i := slices.IndexFunc(all, func(s policy.Status) bool { return s.Name == name })
	if i < 0 {
		_, err := p.Engine.Source(name)
		return gateway.PolicyDetail{}, ofPolicy(err)
	}
	d := gateway.PolicyDetail{PolicyStatus: p.status(ctx, all[i]), Versions: []journal.Change{}}
	if path, err := p.path(ctx, name); err == nil {
		_, _, err := author.FolderOf(path)
		d.HasSource = err == nil
	}
	changes, err := p.Store.ListPolicyChanges(ctx, journal.ChangeFilter{Policy: name, Limit: maxVersions})
	slices.Reverse(changes)
	d.Versions = append(d.Versions, changes...)
	return d, err
}

// PolicyChanges implements gateway.Policies.
func (p Policies) PolicyChanges(ctx context.Context, name string) ([]journal.Change, error) {
	changes, err := p.Store.ListPolicyChanges(ctx, journal.ChangeFilter{Policy: name, Limit: math.MaxInt32})
	slices.Reverse(changes)
	return changes, err
}

// PolicySource implements gateway.Policies.
func (p Policies) PolicySource(ctx context.Context, name string) ([]author.SourceFile, error) {
	path, err := p.path(ctx, name)
	if err != nil {
		return nil, ofPolicy(err)
	}
	files, err := author.SourceOf(path)
	return files, ofPolicy(err)
}

// path returns where the module of a policy lies.
func (p Policies) path(ctx context.Context, name string) (string, error) {
	source, err := p.Engine.Source(name)
	if err != nil || source.Installed == nil {
		return source.Path, err
	}
	path, _, err := source.Installed.Find(ctx)
	return path, err
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
		ShadowOf: from.ShadowOf, Stateful: from.Stateful, FuelTotal: from.FuelTotal, FuelMax: from.FuelMax, FuelLimit: from.FuelLimit,
		Isolation: from.Isolation, Agents: from.Agents, Channels: from.Channels, AllowOnError: from.AllowOnError,
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
