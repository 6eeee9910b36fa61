package configured

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"syscall"
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
	locks bool // whether a policy that comes with Flynn is put into the lock
}

func byName(c *config.Config, log *slog.Logger) named {
	return named{store: Store(c), shelf: sync.OnceValue(firstparty.Find), log: log}
}

// find returns the path of a policy's module and its digest, after verifying every file of the policy. In a checkout it builds a policy that
// comes with Flynn.
func (n named) find(ctx context.Context, name string) (path, sum string, err error) {
	installed, err := n.installed(name)
	if err != nil {
		return "", "", err
	}
	if !n.shelved(installed, name) {
		return n.store.Find(name)
	}
	got, err := n.shelf().Get(ctx, n.log, firstparty.Policies, name, author.Assembler{})
	if err != nil {
		return "", "", err
	}
	if n.locks {
		err := n.provide(got, installed, name)
		if err == nil {
			return n.store.Find(name)
		}
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
			return "", "", err
		}
		n.log.Warn("a policy that comes with flynn is used without being in the lock", "policy", name, "error", err)
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

// shelved reports whether a policy comes with Flynn, and no person has installed another one of its name. l is the lock's entry for it.
func (n named) shelved(l *pack.Locked, name string) bool {
	return (l == nil || l.FirstParty != "") && n.shelf().Has(firstparty.Policies, name)
}

// provide puts a policy that comes with Flynn into the lock, unless this build of it is there.
func (n named) provide(got firstparty.Got, l *pack.Locked, name string) error {
	stamp, err := n.shelf().Stamp(firstparty.Policies, name)
	if err != nil || l != nil && l.FirstParty == stamp {
		return err
	}
	if err := n.store.Provide(got.Dir, stamp, n.shelf().Origin(firstparty.Policies, name)); err != nil {
		return err
	}
	n.log.Info("a policy that comes with flynn is in the lock", "policy", name, "digest", got.Digest)
	return nil
}

// Available is a policy that comes with Flynn.
type Available struct {
	Name    string   `json:"name"`
	Version string   `json:"version"`
	Kinds   []string `json:"kinds"`
	Source  string   `json:"source"` // where it comes from
}

// Unused returns the policies that come with Flynn and that the configuration does not name.
func Unused(c *config.Config) ([]Available, error) {
	shelf := firstparty.Find()
	var out []Available
	for _, name := range shelf.Names(firstparty.Policies) {
		if slices.ContainsFunc(c.Policies, func(p config.Policy) bool { return p.Policy == name }) {
			continue
		}
		m, err := author.LoadManifest(shelf.Dir(firstparty.Policies, name))
		if err != nil {
			return nil, fmt.Errorf("read policy %s: %w", name, err)
		}
		out = append(out, Available{m.Name, m.Version, m.Kinds, shelf.Origin(firstparty.Policies, name)})
	}
	return out, shelf.Err()
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
	if err != nil || l != nil && l.FirstParty == "" {
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
	if err != nil || !n.shelved(l, p.Policy) {
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
