package host

import (
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/tool/provider"
	"github.com/flynnhost/flynn/host/tool/provider/sandboxed"
)

// setTools brings the running providers in line with a configuration.
func (h *Host) setTools(old, next *config.Config) {
	var before map[string]config.ToolProvider
	if old != nil {
		before = old.Tools
	}
	lineup[config.ToolProvider]{
		host: h, enabled: func(c config.ToolProvider) bool { return c.Enabled }, same: provider.SameProcess, ended: h.servers.Remove,
		start: func(name string, c config.ToolProvider) error {
			i := plugin.Instance{
				Name: name, Plugin: c.Plugin, Kind: plugin.Tools, Settings: c.Settings, Secrets: reveal(c.Secrets),
				Grant: plugin.Grant{Read: c.Read, Write: c.Write, Network: c.Network, Memory: int64(c.MemoryLimit)},
			}
			if err := h.startServer(name, c, &i); err != nil {
				return err
			}
			return h.plugins.Add(i, h.tools.Provider(name))
		},
	}.set(before, next.Tools)
	h.tools.Started(next)
}

// startServer starts the server of a provider where it belongs in a sandbox, and gives its plugin the socket to it.
func (h *Host) startServer(name string, c config.ToolProvider, i *plugin.Instance) error {
	if !c.Sandbox.Enabled {
		return nil
	}
	server, err := c.Server()
	if err != nil {
		return err
	}
	socket, err := h.servers.Add(name, c.Sandbox.Name, sandboxed.Command(server))
	if err != nil {
		return err
	}
	i.Settings, i.Grant.Sockets = c.Reach(socket), []string{socket}
	return nil
}
