package backend

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/upkeep"
	"github.com/flynnhost/flynn/host/store"
)

// Installed are the plugins on disk of a running host.
type Installed struct {
	Config func() *config.Config
	Log    *slog.Logger
}

var _ gateway.InstalledPlugins = Installed{}

func (i Installed) upkeep() (upkeep.Upkeep, error) {
	c := i.Config()
	s, err := plugin.OpenStore(c.Plugins.Dir)
	return upkeep.Upkeep{Store: s, Config: c, Running: true, Log: i.Log}, err
}

// InstalledPlugins implements gateway.InstalledPlugins.
func (i Installed) InstalledPlugins(ctx context.Context) ([]gateway.InstalledPlugin, error) {
	u, err := i.upkeep()
	if err != nil {
		return nil, err
	}
	records, err := u.Store.Records()
	if err != nil {
		return nil, err
	}
	available, err := u.Store.Available()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range records {
		names = append(names, r.Name)
	}
	for _, a := range available {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	out := []gateway.InstalledPlugin{}
	for _, name := range slices.Compact(names) {
		p, err := i.InstalledPlugin(ctx, name)
		if err != nil {
			p = gateway.InstalledPlugin{Name: name, Problem: err.Error()}
		}
		out = append(out, p)
	}
	return out, nil
}

// InstalledPlugin implements gateway.InstalledPlugins.
func (i Installed) InstalledPlugin(_ context.Context, name string) (gateway.InstalledPlugin, error) {
	u, err := i.upkeep()
	if err != nil {
		return gateway.InstalledPlugin{}, err
	}
	r, err := u.Store.Record(name)
	if err != nil {
		return gateway.InstalledPlugin{}, as(err, store.ErrNotFound)
	}
	now := r.ActiveRelease()
	p := gateway.InstalledPlugin{
		Name: name, Version: now.Version, Installed: r.Active != "", Disabled: r.Disabled, Source: now.Source, Signer: now.Signer, Next: r.Next,
		Kinds: []string{}, Versions: []gateway.PluginVersion{}, Rejected: []gateway.RejectedVersion{}, Instances: append([]string{}, u.Uses(name)...),
	}
	for _, l := range r.Releases {
		p.Versions = append(p.Versions, gateway.PluginVersion{
			Version: l.Version, Active: l.Version == r.Active, Installed: l.Installed, Source: l.Source, Signer: l.Signer,
			Digest: l.Files[plugin.ManifestName], Files: len(l.Files),
		})
	}
	for _, j := range r.Rejected {
		p.Rejected = append(p.Rejected, gateway.RejectedVersion(j))
	}
	m, err := u.Store.VerifiedManifest(name)
	if err != nil {
		p.Problem = err.Error()
		return p, nil
	}
	p.Description = m.Description
	for _, k := range m.Kinds {
		p.Kinds = append(p.Kinds, string(k))
	}
	p.Asks = gateway.PluginPermissions{
		Network: m.Permissions.Network, Read: m.Permissions.Read, Write: m.Permissions.Write, Host: m.Permissions.Host, Env: m.Permissions.Env,
		Secrets: m.Config.Secrets, State: m.Permissions.State,
	}
	return p, nil
}

// InstallPlugin implements gateway.InstalledPlugins.
func (i Installed) InstallPlugin(ctx context.Context, from gateway.PluginSource, by string) (gateway.InstalledPlugin, error) {
	u, err := i.upkeep()
	if err != nil {
		return gateway.InstalledPlugin{}, err
	}
	u.Private = from.Private
	p, err := u.Install(ctx, from.From)
	if err != nil {
		return gateway.InstalledPlugin{}, as(err, store.ErrConflict)
	}
	i.Log.Info("plugin installed", "by", by, "plugin", p.Name, "version", p.Version, "source", p.Source)
	return i.InstalledPlugin(ctx, p.Name)
}

// UpgradePlugin implements gateway.InstalledPlugins.
func (i Installed) UpgradePlugin(ctx context.Context, name string, from gateway.PluginSource, by string) (gateway.InstalledPlugin, error) {
	return i.move(ctx, name, by, func(u upkeep.Upkeep) (upkeep.Move, error) {
		u.Private = from.Private
		return u.Upgrade(ctx, name, from.From)
	})
}

// RollbackPlugin implements gateway.InstalledPlugins.
func (i Installed) RollbackPlugin(ctx context.Context, name, by string) (gateway.InstalledPlugin, error) {
	return i.move(ctx, name, by, func(u upkeep.Upkeep) (upkeep.Move, error) { return u.Rollback(ctx, name) })
}

func (i Installed) move(ctx context.Context, name, by string, do func(upkeep.Upkeep) (upkeep.Move, error)) (gateway.InstalledPlugin, error) {
	u, err := i.known(name)
	if err != nil {
		return gateway.InstalledPlugin{}, err
	}
	moved, err := do(u)
	if err != nil {
		return gateway.InstalledPlugin{}, as(err, store.ErrConflict)
	}
	i.Log.Info("plugin moved", "by", by, "plugin", name, "from", moved.From, "version", moved.Version)
	return i.InstalledPlugin(ctx, name)
}

// known returns the upkeep of a plugin that is there.
func (i Installed) known(name string) (upkeep.Upkeep, error) {
	u, err := i.upkeep()
	if err == nil {
		if _, err = u.Store.Record(name); err != nil {
			err = as(err, store.ErrNotFound)
		}
	}
	return u, err
}

// VerifyPlugin implements gateway.InstalledPlugins.
func (i Installed) VerifyPlugin(_ context.Context, name string) (string, error) {
	u, err := i.known(name)
	if err != nil {
		return "", err
	}
	if u.Store.Awaits(name) {
		return "", as(errors.New("plugin "+name+" comes with flynn and is not installed yet"), store.ErrConflict)
	}
	if _, err := u.Store.Verify(name); err != nil {
		return strings.TrimSpace(err.Error()), nil
	}
	return "", nil
}

// EnablePlugin implements gateway.InstalledPlugins.
func (i Installed) EnablePlugin(ctx context.Context, name string, enabled bool, by string) error {
	u, err := i.known(name)
	if err != nil {
		return err
	}
	if err := u.SetDisabled(ctx, name, !enabled); err != nil {
		return as(err, store.ErrConflict)
	}
	i.Log.Info("plugin switched", "by", by, "plugin", name, "enabled", enabled)
	return nil
}

// RemovePlugin implements gateway.InstalledPlugins.
func (i Installed) RemovePlugin(_ context.Context, name string, force bool, by string) error {
	u, err := i.known(name)
	if err != nil {
		return err
	}
	if err := u.Remove(name, force); err != nil {
		return as(err, store.ErrConflict)
	}
	i.Log.Info("plugin removed", "by", by, "plugin", name)
	return nil
}
