package host

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/store"
)

var _ gateway.Plugins = backend{}

// Plugins implements gateway.Plugins.
func (b backend) Plugins(context.Context) []gateway.PluginStatus {
	var out []gateway.PluginStatus
	for _, s := range b.h.plugins.Status() {
		p := gateway.PluginStatus{
			Name: s.Name, Plugin: s.Plugin, Version: s.Version, State: string(s.State), Since: s.Since, Detail: s.Detail, PID: s.PID,
			Restarts: s.Restarts, LastError: s.LastError, Critical: s.Critical, Dev: s.Dev, Login: s.Login,
		}
		for _, m := range b.h.plugins.Containment(s.Name) {
			p.Containment = append(p.Containment, gateway.PluginMeasure{Name: m.Name, On: m.On, Detail: m.Detail})
		}
		out = append(out, p)
	}
	return out
}

// PluginLogs implements gateway.Plugins.
func (b backend) PluginLogs(_ context.Context, instance string, after uint64) ([]gateway.PluginLine, error) {
	lines, err := b.h.plugins.Logs(instance, after)
	out := make([]gateway.PluginLine, len(lines))
	for i, l := range lines {
		out[i] = gateway.PluginLine(l)
	}
	return out, pluginError(err)
}

// RestartPlugin implements gateway.Plugins.
func (b backend) RestartPlugin(_ context.Context, instance string) error {
	return pluginError(b.h.plugins.Restart(instance))
}

// PluginLogin implements gateway.Plugins.
func (b backend) PluginLogin(_ context.Context, instance string) (string, error) {
	code, err := b.h.plugins.LoginCode(instance)
	return code, pluginError(err)
}

func pluginError(err error) error {
	if errors.Is(err, plugin.ErrNoInstance) {
		return notFound{err}
	}
	return err
}

// notFound is what the gateway takes for store.ErrNotFound, in the words of somebody else.
type notFound struct{ error }

func (notFound) Is(target error) bool { return target == store.ErrNotFound }
