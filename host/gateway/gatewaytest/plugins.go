package gatewaytest

import (
	"context"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

// Plugins has instances and plugins on disk. Done gets what was asked for; it may be nil.
type Plugins struct {
	Instances []gateway.PluginStatus
	Lines     []gateway.PluginLine
	Code      string
	OnDisk    []gateway.InstalledPlugin
	Done      func(what string) error
}

var (
	_ gateway.Plugins          = Plugins{}
	_ gateway.InstalledPlugins = Plugins{}
)

func (p Plugins) done(what string) error {
	if p.Done == nil {
		return nil
	}
	return p.Done(what)
}

// Plugins implements gateway.Plugins.
func (p Plugins) Plugins(context.Context) []gateway.PluginStatus { return p.Instances }

// PluginLogs implements gateway.Plugins.
func (p Plugins) PluginLogs(_ context.Context, _ string, after uint64) ([]gateway.PluginLine, error) {
	var out []gateway.PluginLine
	for _, l := range p.Lines {
		if l.Seq > after {
			out = append(out, l)
		}
	}
	return out, nil
}

// RestartPlugin implements gateway.Plugins.
func (p Plugins) RestartPlugin(_ context.Context, instance string) error {
	return p.done("restart " + instance)
}

// PluginLogin implements gateway.Plugins.
func (p Plugins) PluginLogin(context.Context, string) (string, error) { return p.Code, nil }

// InstalledPlugins implements gateway.InstalledPlugins.
func (p Plugins) InstalledPlugins(context.Context) ([]gateway.InstalledPlugin, error) {
	return p.OnDisk, nil
}

// InstalledPlugin implements gateway.InstalledPlugins.
func (p Plugins) InstalledPlugin(_ context.Context, name string) (gateway.InstalledPlugin, error) {
	for _, o := range p.OnDisk {
		if o.Name == name {
			return o, nil
		}
	}
	return gateway.InstalledPlugin{}, store.ErrNotFound
}

// InstallPlugin implements gateway.InstalledPlugins.
func (p Plugins) InstallPlugin(_ context.Context, from gateway.PluginSource, _ string) (gateway.InstalledPlugin, error) {
	return gateway.InstalledPlugin{Name: from.From}, p.done("install " + from.From)
}

// UpgradePlugin implements gateway.InstalledPlugins.
func (p Plugins) UpgradePlugin(ctx context.Context, name string, from gateway.PluginSource, _ string) (gateway.InstalledPlugin, error) {
	if err := p.done("upgrade " + name + " " + from.From); err != nil {
		return gateway.InstalledPlugin{}, err
	}
	return p.InstalledPlugin(ctx, name)
}

// RollbackPlugin implements gateway.InstalledPlugins.
func (p Plugins) RollbackPlugin(ctx context.Context, name, _ string) (gateway.InstalledPlugin, error) {
	if err := p.done("rollback " + name); err != nil {
		return gateway.InstalledPlugin{}, err
	}
	return p.InstalledPlugin(ctx, name)
}

// VerifyPlugin implements gateway.InstalledPlugins.
func (p Plugins) VerifyPlugin(_ context.Context, name string) (string, error) {
	return "bin/x differs", p.done("verify " + name)
}

// EnablePlugin implements gateway.InstalledPlugins.
func (p Plugins) EnablePlugin(_ context.Context, name string, enabled bool, _ string) error {
	return p.done(map[bool]string{true: "enable ", false: "disable "}[enabled] + name)
}

// RemovePlugin implements gateway.InstalledPlugins.
func (p Plugins) RemovePlugin(_ context.Context, name string, _ bool, _ string) error {
	return p.done("remove " + name)
}
