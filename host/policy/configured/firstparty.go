package configured

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/firstparty"
	"github.com/flynnhost/flynn/host/policy/author"
	"github.com/flynnhost/flynn/host/policy/pack"
)

// named finds policies by their names: those that a person has installed, and then those that come with Flynn.
type named struct {
	store *pack.Store
	shelf func() firstparty.Shelf
	log   *slog.Logger
}

func byName(c *config.Config, log *slog.Logger) named {
	return named{Store(c), sync.OnceValue(firstparty.Find), log}
}

// find returns the path of a policy's module and its digest, after verifying every file of the policy. In a checkout it builds a policy that
// comes with Flynn.
func (n named) find(ctx context.Context, name string) (path, sum string, err error) {
	installed, err := n.installed(name)
	if err != nil {
		return "", "", err
	}
	if installed != nil || !n.shelf().Has(firstparty.Policies, name) {
		return n.store.Find(name)
	}
	got, err := n.shelf().Get(ctx, n.log, firstparty.Policies, name, author.Assembler{})
	if err != nil {
		return "", "", err
	}
	if path, err = author.ModuleOf(got.Dir); err != nil {
		return "", "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	sum, err = digest.Read(f)
	return path, sum, err
}

// installed returns the lock's entry for a policy; nil if there is none.
func (n named) installed(name string) (*pack.Locked, error) {
	list, err := n.store.List()
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		if l.Name == name {
			return &l, nil
		}
	}
	return nil, nil
}

// known returns nil if there is a policy of that name, and else an error with a similar name.
func (n named) known(name string) error {
	l, err := n.installed(name)
	shelf := n.shelf()
	if err != nil || l != nil {
		return err
	}
	if err := shelf.Err(); err != nil {
		return err
	}
	own := shelf.Names(firstparty.Policies)
	if slices.Contains(own, name) {
		return shelf.Check(firstparty.Policies, name)
	}
	list, err := n.store.List()
	if err != nil {
		return err
	}
	for _, l := range list {
		own = append(own, l.Name)
	}
	if near := config.Nearest(name, own); near != "" {
		return fmt.Errorf("policy %q is not installed: did you mean %q?", name, near)
	}
	return n.store.Installed(name)
}

// complete fills in what the configuration of a policy that is given by name leaves to its policy.toml: the kinds and, for one that comes
// with Flynn, the limits.
func (n named) complete(c *config.Config, i int) config.Policy {
	p := c.Policies[i]
	if p.Policy == "" {
		return p
	}
	l, err := n.installed(p.Policy)
	if l != nil || err != nil || !n.shelf().Has(firstparty.Policies, p.Policy) {
		if l != nil && len(p.Kinds) == 0 {
			p.Kinds = l.Kinds
		}
		return p
	}
	m, err := author.LoadManifest(n.shelf().Dir(firstparty.Policies, p.Policy))
	if err != nil {
		return p // Check and find say so
	}
	if len(p.Kinds) == 0 {
		p.Kinds = m.Kinds
	}
	own := func(key string, set bool) bool { return set && !c.Has(config.PolicyKey(i, "limits", key)...) }
	if own("fuel", m.Limits.Fuel != 0) {
		p.Limits.Fuel = m.Limits.Fuel
	}
	if own("memory", m.Limits.Memory != 0) {
		p.Limits.Memory = config.Size(m.Limits.Memory)
	}
	if own("depth", m.Limits.Depth != 0) {
		p.Limits.Depth = m.Limits.Depth
	}
	if own("host_calls", m.Limits.HostCalls != 0) {
		p.Limits.HostCalls = m.Limits.HostCalls
	}
	if own("wall", m.Limits.Wall != 0) {
		p.Limits.Wall = config.Duration(time.Duration(m.Limits.Wall))
	}
	return p
}
