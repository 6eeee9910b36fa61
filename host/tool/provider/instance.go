package provider

import (
	"maps"
	"reflect"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/instances"
	toolkind "github.com/flynnhost/flynn/host/plugin/kind/tools"
	"github.com/flynnhost/flynn/host/tool/provider/sandboxed"
)

// Servers runs the servers of providers in sandboxes; *sandboxed.Servers implements it.
type Servers interface {
	Add(provider, sandbox string, c sandboxed.Command) (socket string, err error)
	Remove(provider string)
}

var _ instances.Kind[config.ToolProvider] = (*Set)(nil)

// Enabled reports whether a provider has a process.
func (s *Set) Enabled(c config.ToolProvider) bool { return c.Enabled }

// Same reports whether two configurations of a provider have the same process. Rules do not matter: they come into force with the
// generation.
func (s *Set) Same(a, b config.ToolProvider) bool {
	return a.Plugin == b.Plugin && a.Enabled == b.Enabled && a.Sandbox == b.Sandbox && reflect.DeepEqual(a.Settings, b.Settings) &&
		maps.Equal(a.Secrets, b.Secrets) && slices.Equal(a.Read, b.Read) && slices.Equal(a.Write, b.Write) && slices.Equal(a.Network, b.Network) &&
		a.MemoryLimit == b.MemoryLimit
}

// Instance returns the process of a provider, and the provider that serves it. The plugin reaches a server in a sandbox over a socket.
func (s *Set) Instance(name string, c config.ToolProvider) (plugin.Instance, plugin.Handler, error) {
	i := plugin.Instance{
		Name: name, Plugin: c.Plugin, Kind: toolkind.Name, Settings: c.Settings, Secrets: instances.Reveal(c.Secrets),
		Grant: plugin.Grant{Read: c.Read, Write: c.Write, Network: c.Network, Memory: int64(c.MemoryLimit)},
	}
	if c.Sandbox.Enabled {
		server, err := c.Server()
		if err != nil {
			return i, nil, err
		}
		socket, err := s.cfg.Servers.Add(name, c.Sandbox.Name, sandboxed.Command(server))
		if err != nil {
			return i, nil, err
		}
		i.Settings, i.Grant.Sockets = c.Reach(socket), []string{socket}
	}
	return i, s.Provider(name), nil
}

// Ended ends the server of a provider whose process has ended.
func (s *Set) Ended(name string) { s.cfg.Servers.Remove(name) }
