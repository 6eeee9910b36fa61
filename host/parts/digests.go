package parts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/cluster"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/configured"
)

// Tell has the other hosts told where this one listens and what it runs with.
func (k *Keeper) Tell() {
	if !k.cfg.Store.Shared() {
		return
	}
	k.telling.Lock()
	defer k.telling.Unlock()
	cfg := k.cfg.Current()
	k.cfg.Member.Tell(cluster.Runs{Address: k.cfg.Listens(), Digests: k.digests(cfg), Shared: cfg.SharedDigest(), Revision: cfg.Revision})
}

// tell is Tell after a look. If this host has all parts, and nothing but them has changed since it told its digests, those of now take the place of
// the ones that it agreed on before.
func (k *Keeper) tell(ctx context.Context, s *survey, complete bool) error {
	digests := k.digests(k.cfg.Current())
	if m := &s.memory; complete && m.Config == k.cfg.Current().SharedDigest() && k.inForce() {
		if m.Revision != s.revision {
			if err := k.cfg.Store.Follow(ctx, m.Digests, digests, s.revision); err != nil {
				return err
			}
		}
		m.Digests, m.Revision = digests, s.revision
	}
	k.Tell()
	return nil
}

// inForce reports whether the modules of the installed policies that the configuration names are those in the lock.
func (k *Keeper) inForce() bool {
	cfg := k.cfg.Current()
	locked, err := policies{cfg}.locked()
	status := map[string]policy.Status{}
	for _, s := range k.cfg.Policies.Status() {
		status[s.Name] = s
	}
	for _, p := range cfg.Policies {
		l, installed := locked[cmp.Or(p.Policy, p.Name)]
		if s, runs := status[p.Name]; p.Path == "" && installed && runs && s.File != l.Digest {
			return false
		}
	}
	return err == nil
}

// digests returns the digest of all that hosts which share a store must have in common: the configuration, the policies in force and the plugins
// that it names. The policies in force are those of cfg or of a later one.
func (k *Keeper) digests(cfg *config.Config) string {
	parts := []string{cfg.SharedDigest()}
	named := map[string]bool{} // policies that people have installed or given a path
	locked, err := configured.Store(cfg).List()
	for _, l := range locked {
		named[l.Name] = l.FirstParty == ""
	}
	own := map[string]bool{}
	for _, p := range cfg.Policies {
		own[p.Name] = p.Path != "" || named[cmp.Or(p.Policy, p.Name)]
	}
	for _, p := range k.cfg.Policies.Status() {
		if own[p.Name] {
			parts = append(parts, "policy "+p.Name+" "+p.File)
		}
	}
	plugins, more := plugin.OpenStore(cfg.Plugins.Dir)
	if more == nil {
		var installed []plugin.Locked
		if installed, more = plugins.List(); more == nil {
			parts = append(parts, pluginDigests(installed, pluginsOf(cfg))...)
		}
	}
	if err = errors.Join(err, more); err != nil {
		k.cfg.Log.Warn("cannot tell other hosts which policies and plugins this one has", "error", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, "\n"))))
}

func pluginsOf(c *config.Config) map[string]bool {
	used := map[string]bool{}
	for _, v := range c.Channels {
		used[v.Plugin] = true
	}
	for _, v := range c.Tools {
		used[v.Plugin] = true
	}
	for _, v := range c.Drivers {
		used[v.Plugin] = true
	}
	return used
}

// pluginDigests returns a line for each file of the plugins that are used.
func pluginDigests(installed []plugin.Locked, used map[string]bool) (lines []string) {
	for _, l := range installed {
		if !used[l.Name] || l.FirstParty != "" {
			continue
		}
		for file, sum := range l.Files {
			lines = append(lines, fmt.Sprintf("plugin %s %s %s %s", l.Name, l.Version, file, sum))
		}
	}
	slices.Sort(lines)
	return lines
}
