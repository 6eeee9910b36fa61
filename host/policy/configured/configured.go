// Package configured returns the policies of a configuration as the engine takes them, and the store of installed policies. It also
// finds those that come with Flynn.
//
// Start with Sources. The package loads no module; package policy does.
package configured

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/pack"
)

// Sources returns the policies of a configuration, as the engine takes them. The log says what is built.
func Sources(c *config.Config, log *slog.Logger) []policy.Source {
	return byName(c, log).sources(c)
}

// Live is Sources for a running host: a policy that comes with Flynn is put into the lock at its first use, and again when Flynn comes with
// another build of it.
func Live(c *config.Config, log *slog.Logger) []policy.Source {
	n := byName(c, log)
	n.locks = true
	return n.sources(c)
}

func (n named) sources(c *config.Config) []policy.Source {
	var out []policy.Source
	for i := range c.Policies {
		p := n.complete(c, i)
		out = append(out, policy.Source{
			Name: p.Name, Path: p.Path, Installed: n.source(p.Policy), Kinds: p.Kinds, Data: p.Data,
			OnErrorAgent: p.OnErrorAgent, Isolation: p.Isolation, AllowOnError: p.DangerouslyAllowOnError, Agents: p.Agents, Channels: p.Channels,
			Shadow: p.Shadow, ShadowOf: p.ShadowOf,
			RevertAfter: p.RevertAfterFailures, Replay: policy.ReplayGate{
				On: p.MaxChange < 100 || p.MaxLoosened < 100, Change: p.MaxChange.Share(), Loosened: p.MaxLoosened.Share(),
			},
			Limits: policy.Limits{
				Fuel: p.Limits.Fuel, Memory: int64(p.Limits.Memory), Depth: p.Limits.Depth, HostCalls: p.Limits.HostCalls,
				Wall: time.Duration(p.Limits.Wall),
			},
		})
	}
	return out
}

// Store returns the installed policies of a configuration. They are below the store's folder, and the lock is beside the file.
func Store(c *config.Config) *pack.Store {
	trust := pack.Trust{Required: c.Trust.RequireSignature, Table: "[policy_trust]"}
	for _, key := range c.Trust.Keys {
		trust.Keys = append(trust.Keys, pack.Key(key)) // the check of the configuration has parsed it
	}
	return pack.NewStore(filepath.Join(c.Store.Dir, "policies", "installed"), filepath.Join(filepath.Dir(c.Path), pack.LockName), trust)
}

// source returns how the engine finds a policy by its name; nil for a policy that is a file.
func (n named) source(name string) *policy.Installed {
	if name == "" {
		return nil
	}
	return &policy.Installed{
		Name: name, Lock: n.store.Lock(), Trust: n.store.Trust().String(),
		Find: func(ctx context.Context) (path, file string, err error) { return n.find(ctx, name) },
	}
}

// Find returns the path of the module of a policy that the configuration gives by name, and its digest.
func Find(ctx context.Context, c *config.Config, log *slog.Logger, name string) (path, file string, err error) {
	return byName(c, log).find(ctx, name)
}

// Check returns an error for each policy that is given by name, is not installed and does not come with Flynn.
func Check(c *config.Config) config.Errors {
	var errs config.Errors
	n := byName(c, slog.New(slog.DiscardHandler))
	for i, p := range c.Policies {
		if p.Policy == "" {
			continue
		}
		key := config.PolicyKey(i, "policy")
		if !c.Has(key...) {
			key = config.PolicyKey(i, "name")
		}
		err := n.known(p.Policy)
		if err == nil && len(n.complete(c, i).Kinds) == 0 {
			key, err = config.PolicyKey(i, "kinds"), errors.New(`missing: write kinds = ["route"], ["tool"] or both`)
		}
		if err != nil {
			errs = append(errs, config.Error{File: c.Path, Line: c.Line(key...), Key: config.KeyString(key...), Problem: err.Error()})
		}
	}
	return errs
}
