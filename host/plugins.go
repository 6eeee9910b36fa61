package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/install/signing"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/store"
)

// PluginTrust says whose plugins a configuration takes.
func PluginTrust(c *config.Config) signing.Trust {
	trust := signing.Trust{Required: c.PluginTrust.RequireSignature, Table: "[plugin_trust]"}
	for _, key := range c.PluginTrust.Keys {
		trust.Keys = append(trust.Keys, signing.Key(key)) // the check of the configuration has parsed it
	}
	return trust
}

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

// settingAt is where the setting of an instance stands in the file, or the table that it would stand in.
func (h *Host) settingAt(kind plugin.Kind, instance string, key []string) string {
	c := h.holder.Current()
	if line := c.Line(instanceKey(kind, instance, key)...); line > 0 {
		return fmt.Sprintf("%s:%d: ", c.Path, line)
	}
	return c.Path + ": "
}

// containment is how plugins are held in. What they must not read is tried with the configuration, the database and the token.
func (h *Host) containment(c *config.Config) plugin.Containment {
	contain := plugin.Containment{
		Launcher: h.launcher, Required: c.Plugins.Containment == "required",
		Secret: []string{c.Path, c.Gateway.TokenFile, c.Store.Dir},
	}
	if c.Plugins.Containment == "off" {
		contain.Launcher = nil
	}
	return contain
}
