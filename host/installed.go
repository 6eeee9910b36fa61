package host

import (
	"path/filepath"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/pack"
)

// PolicyStore is where the policies of a configuration are installed: below the store's folder, with the lock beside the file.
func PolicyStore(c *config.Config) *pack.Store {
	trust := pack.Trust{Required: c.Trust.RequireSignature, Table: "[policy_trust]"}
	for _, key := range c.Trust.Keys {
		trust.Keys = append(trust.Keys, pack.Key(key)) // the check of the configuration has parsed it
	}
	return pack.NewStore(filepath.Join(c.Store.Dir, "policies", "installed"), filepath.Join(filepath.Dir(c.Path), pack.LockName), trust)
}

// installedPolicy is how the engine finds a policy by name; nil for one that is a file.
func installedPolicy(c *config.Config, name string) *policy.Installed {
	if name == "" {
		return nil
	}
	s := PolicyStore(c)
	return &policy.Installed{
		Name: name, Lock: s.Lock(), Trust: s.Trust().String(), Find: func() (path, file string, err error) { return s.Find(name) },
	}
}

// checkInstalled finds policies that are named and not installed.
func checkInstalled(c *config.Config) config.Errors {
	var errs config.Errors
	for i, p := range c.Policies {
		if p.Policy == "" {
			continue
		}
		if err := PolicyStore(c).Installed(p.Policy); err != nil {
			key := config.PolicyKey(i, "policy")
			errs = append(errs, config.Error{File: c.Path, Line: c.Line(key...), Key: config.KeyString(key...), Problem: err.Error()})
		}
	}
	return errs
}
