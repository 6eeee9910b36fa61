package host

import (
	"context"
	"fmt"
	"reflect"

	"github.com/flynnhost/flynn/host/config"
)

// follow takes over each new configuration that the holder accepts.
func (h *Host) follow(ctx context.Context) error {
	defer h.holder.Subscribe(h.stage)()
	return h.holder.Run(ctx, h.hangup)
}

// stage makes a configuration ready beside the one in force. Turns that have begun keep theirs.
func (h *Host) stage(ctx context.Context, old, next *config.Config) (commit, rollback func(), err error) {
	if err := unchangeable(old, next); err != nil {
		return nil, nil, err
	}
	g, err := h.newGeneration(next)
	if err != nil {
		return nil, nil, err
	}
	if err := h.policies.Configure(ctx, PolicySources(next)); err != nil {
		return nil, nil, fmt.Errorf("stage policies: %w", err)
	}
	commit = func() {
		h.current.Store(g) // turns that have begun keep the old one; its idle connections close by themselves
		h.machines.configure(next)
		h.setChannels(old, next)
		h.metrics.generation(next.Generation)
	}
	rollback = func() {
		if err := h.policies.Configure(context.WithoutCancel(ctx), PolicySources(old)); err != nil {
			h.log.Error("go back to the policies in force before", "error", err)
		}
	}
	return commit, rollback, nil
}

// unchangeable refuses what only a restart can change.
func unchangeable(old, next *config.Config) error {
	for _, k := range []struct {
		key        string
		was, wants any
	}{
		{"store.dir", old.Store.Dir, next.Store.Dir},
		{"store.max_age_hours", old.Store.MaxAgeHours, next.Store.MaxAgeHours},
		{"plugins.dir", old.Plugins.Dir, next.Plugins.Dir},
		{"plugins.dev_paths", old.Plugins.DevPaths, next.Plugins.DevPaths},
		{"gateway.listen", old.Gateway.Listen, next.Gateway.Listen},
		{"gateway.token_file", old.Gateway.TokenFile, next.Gateway.TokenFile},
		{"gateway.origins", old.Gateway.Origins, next.Gateway.Origins},
		{"sandbox.enabled", old.Sandbox.Enabled, next.Sandbox.Enabled},
		{"sandbox.engine", old.Sandbox.Engine, next.Sandbox.Engine},
		{"sandbox.warm_pool", old.Sandbox.WarmPool, next.Sandbox.WarmPool},
		{"budgets.parallel_turns", old.Budgets.ParallelTurns, next.Budgets.ParallelTurns},
	} {
		if !reflect.DeepEqual(k.was, k.wants) {
			return fmt.Errorf("%s: %s changed from %v to %v: restart flynn to change it", next.Path, k.key, k.was, k.wants)
		}
	}
	return nil
}
