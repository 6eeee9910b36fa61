package host

import (
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/tool/provider"
)

// setTools brings the running providers in line with a configuration.
func (h *Host) setTools(old, next *config.Config) {
	var before map[string]config.ToolProvider
	if old != nil {
		before = old.Tools
	}
	lineup[config.ToolProvider]{
		host: h, enabled: func(c config.ToolProvider) bool { return c.Enabled }, same: provider.SameProcess, ended: h.releaseServer,
		start: func(name string, c config.ToolProvider) error {
			i := plugin.Instance{
				Name: name, Plugin: c.Plugin, Kind: plugin.Tools, Settings: c.Settings, Secrets: reveal(c.Secrets),
				Grant: plugin.Grant{Read: c.Read, Write: c.Write, Network: c.Network, Memory: int64(c.MemoryLimit)},
			}
			if err := h.encloseServer(name, c, &i); err != nil {
				return err
			}
			return h.plugins.Add(i, h.tools.Provider(name))
		},
	}.set(before, next.Tools)
	h.tools.Started(next)
}
