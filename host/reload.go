package host

import (
	"context"
	"fmt"
	"reflect"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/schedule"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/tool/provider"
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
	enforce, forget, err := h.policies.Stage(ctx, configured.Sources(next))
	if err != nil {
		return nil, nil, fmt.Errorf("stage policies: %w", err)
	}
	commit = func() {
		h.exchange(g, enforce) // turns that have begun keep the old one; its idle connections close by themselves
		h.runner.Regroup()
		h.runner.Readmit()
		h.budgets.SetZone(budgetZone(next))
		h.fleet.Configure(next)
		h.setChannels(old, next)
		h.setTools(old, next)
		h.schedules.Set(schedule.Entries(next))
		h.metrics.generation(next.Generation)
	}
	return commit, forget, nil
}

// exchange puts a generation and its policies in force together. One with the policies of the other could allow what both
// forbid: a tool that the old one leaves to a policy, and the new one to nobody.
func (h *Host) exchange(g *generation, enforce func()) {
	h.pair.Lock()
	defer h.pair.Unlock()
	enforce()
	h.current.Store(g)
}

// generations exchanges the generation in force for one with the tools that the providers offer now.
type generations struct{ *Host }

var _ provider.Generations = generations{}

// Refresh implements provider.Generations. Turns that have begun keep the tools that they began with.
func (h generations) Refresh() {
	for {
		g := h.current.Load()
		if g == nil {
			return // before the first configuration; it will ask the providers itself
		}
		next, err := h.withTools(g)
		if err != nil {
			h.log.Error("cannot offer the tools of providers", "error", err)
			return
		}
		if h.current.CompareAndSwap(g, next) {
			h.log.Info("tools of providers are offered", "generation", next.Number, "tools", len(next.Registry.List()))
			return
		}
	}
}

// Waiting implements provider.Generations.
func (h generations) Waiting() *config.Config {
	if g := h.current.Load(); len(g.Late) > 0 {
		return g.config
	}
	return nil
}

// inForce is what a turn begins with.
func (h *Host) inForce() (*agent.Generation, agent.Policies) {
	h.pair.RLock()
	defer h.pair.RUnlock()
	return h.current.Load().Generation, h.policies.Pin()
}

// unchangeable refuses what only a restart can change.
func unchangeable(old, next *config.Config) error {
	for _, k := range []struct {
		key        string
		was, wants any
	}{
		{"store.dir", old.Store.Dir, next.Store.Dir},
		{"store.max_age_hours", old.Store.MaxAgeHours, next.Store.MaxAgeHours},
		{"media", old.Media, next.Media},
		{"plugins.dir", old.Plugins.Dir, next.Plugins.Dir},
		{"plugins.dev_paths", old.Plugins.DevPaths, next.Plugins.DevPaths},
		{"gateway.listen", old.Gateway.Listen, next.Gateway.Listen},
		{"gateway.token_file", old.Gateway.TokenFile, next.Gateway.TokenFile},
		{"gateway.origins", old.Gateway.Origins, next.Gateway.Origins},
		{"gateway.hooks_listen", old.Gateway.HooksListen, next.Gateway.HooksListen},
		{"gateway.public_url", old.Gateway.PublicURL, next.Gateway.PublicURL},
		{"sandbox.enabled", old.Sandbox.Enabled, next.Sandbox.Enabled},
		{"sandbox.engine", old.Sandbox.Engine, next.Sandbox.Engine},
		{"sandbox.pause_after", old.Sandbox.PauseAfter, next.Sandbox.PauseAfter},
		{"sandbox.idle_after", old.Sandbox.IdleAfter, next.Sandbox.IdleAfter},
		{"sandbox.max_age", old.Sandbox.MaxAge, next.Sandbox.MaxAge},
		{"sandbox.lease", old.Sandbox.Lease, next.Sandbox.Lease},
		{"budgets.parallel_turns", old.Budgets.ParallelTurns, next.Budgets.ParallelTurns},
	} {
		if !reflect.DeepEqual(k.was, k.wants) {
			return fmt.Errorf("%s: %s changed from %v to %v: restart flynn to change it", next.Path, k.key, k.was, k.wants)
		}
	}
	return nil
}
