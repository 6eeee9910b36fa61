package host

import (
	"fmt"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/install/signing"
	"github.com/flynnhost/flynn/host/plugin"
)

// PluginTrust says whose plugins a configuration takes.
func PluginTrust(c *config.Config) signing.Trust {
	trust := signing.Trust{Required: c.PluginTrust.RequireSignature, Table: "[plugin_trust]"}
	for _, key := range c.PluginTrust.Keys {
		trust.Keys = append(trust.Keys, signing.Key(key)) // the check of the configuration has parsed it
	}
	return trust
}

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
