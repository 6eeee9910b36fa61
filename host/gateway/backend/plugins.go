package backend

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/store"
)

// Plugins are the instances of plugins.
type Plugins struct{ Host *plugin.Host }

var _ gateway.Plugins = Plugins{}

// Plugins implements gateway.Plugins.
func (p Plugins) Plugins(context.Context) []gateway.PluginStatus {
	var out []gateway.PluginStatus
	for _, s := range p.Host.Status() {
		status := gateway.PluginStatus{
			Name: s.Name, Plugin: s.Plugin, Version: s.Version, State: string(s.State), Since: s.Since, Detail: s.Detail, PID: s.PID,
			Restarts: s.Restarts, LastError: s.LastError, Critical: s.Critical, Dev: s.Dev, Login: s.Login,
		}
		for _, m := range p.Host.Containment(s.Name) {
			status.Containment = append(status.Containment, gateway.PluginMeasure{Name: m.Name, On: m.On, Detail: m.Detail})
		}
		out = append(out, status)
	}
	return out
}

// PluginLogs implements gateway.Plugins.
func (p Plugins) PluginLogs(_ context.Context, instance string, after uint64) ([]gateway.PluginLine, error) {
	lines, err := p.Host.Logs(instance, after)
	out := make([]gateway.PluginLine, len(lines))
	for i, l := range lines {
		out[i] = gateway.PluginLine(l)
	}
	return out, pluginError(err)
}

// RestartPlugin implements gateway.Plugins.
func (p Plugins) RestartPlugin(_ context.Context, instance string) error {
	return pluginError(p.Host.Restart(instance))
}

// PluginLogin implements gateway.Plugins.
func (p Plugins) PluginLogin(_ context.Context, instance string) (string, error) {
	code, err := p.Host.LoginCode(instance)
	return code, pluginError(err)
}

func pluginError(err error) error {
	if errors.Is(err, plugin.ErrNoInstance) {
		return as(err, store.ErrNotFound)
	}
	return err
}
