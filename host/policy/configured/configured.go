// Package configured returns the policies of a configuration as the engine takes them, and the store of installed policies.
//
// Start with Sources. The package loads no module; package policy does.
package configured

import (
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/pack"
)

// Sources returns the policies of a configuration, as the engine takes them.
func Sources(c *config.Config) []policy.Source {
	var out []policy.Source
	for _, p := range c.Policies {
		out = append(out, policy.Source{
			Name: p.Name, Path: p.Path, Installed: installed(c, p.Policy), Kinds: p.Kinds, Data: p.Data,
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

// installed returns how the engine finds an installed policy; nil for a policy that is a file.
func installed(c *config.Config, name string) *policy.Installed {
	if name == "" {
		return nil
	}
	s := Store(c)
	return &policy.Installed{
		Name: name, Lock: s.Lock(), Trust: s.Trust().String(), Find: func() (path, file string, err error) { return s.Find(name) },
	}
}

// Check returns an error for each policy that is named but not installed.
func Check(c *config.Config) config.Errors {
	var errs config.Errors
	for i, p := range c.Policies {
		if p.Policy == "" {
			continue
		}
		if err := Store(c).Installed(p.Policy); err != nil {
			key := config.PolicyKey(i, "policy")
			errs = append(errs, config.Error{File: c.Path, Line: c.Line(key...), Key: config.KeyString(key...), Problem: err.Error()})
		}
	}
	return errs
}
