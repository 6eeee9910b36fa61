package plugin

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/plugin/jail"
)

// Containment configures the jail of plugin processes.
type Containment struct {
	// Launcher is the command that runs jail.Enter and then executes the plugin: usually the host's own program. Without one there is no
	// jail.
	Launcher []string
	// Required refuses to start a plugin whose files and connections cannot be restricted.
	Required bool
	// Secret are files and folders of the host that no plugin may read. The launcher tries to read them.
	Secret []string
}

// jail returns the jail of the process.
func (l *launcher) jail(args []string, path string, opened bool) jail.Config {
	m := l.pack.manifest
	c := jail.New(path, args)
	c.Opened, c.Memory, c.Most, c.Required = opened, int64(m.Run.Memory), l.instance.hardLimit(m), l.host.config.Contain.Required
	c.Read, c.Write, c.Secret = append(c.Read, l.pack.dir), append(c.Write, l.socketDir), l.host.secretFiles(l.stateDir)
	for _, name := range []string{"SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if value, ok := l.host.lookupEnv(name); ok {
			c.Read = append(c.Read, strings.Split(value, ":")...)
		}
	}
	c.Read = append(c.Read, m.Permissions.Read...)
	c.Write = append(c.Write, m.Permissions.Write...)
	if !opened {
		c.Read = append(c.Read, filepath.Dir(path))
	}
	if l.host.names != nil {
		c.Read, c.Links = append(c.Read, l.host.names.Dir), l.host.names.Links()
	}
	if l.stateDir != "" {
		c.Write = append(c.Write, l.stateDir)
	}
	granted := l.instance.Grant
	c.Read, c.Write, c.Sockets = append(c.Read, granted.Read...), append(c.Write, granted.Write...), slices.Clone(granted.Sockets)
	c.Connect(slices.Concat(m.Permissions.Network, granted.Network), l.instance.Settings)
	if l.host.config.Services != nil && len(m.Permissions.Host) > 0 {
		c.Sockets = append(c.Sockets, filepath.Join(l.host.config.RunDir, servicesSocket))
	}
	return c
}

// secretFiles are files that the launcher tries to read and must not be able to: the lock of the store, the folders with the state of all
// instances, and Containment.Secret. A folder that contains the plugin's own cannot be among them, but the list of its names can.
func (h *Host) secretFiles(own string) []string {
	out := slices.Clone(h.config.Contain.Secret)
	out = append(out, h.store.lock.Path, h.store.versions.Dir)
	if dir, err := filepath.Abs(h.config.StateDir); err == nil && dir != own {
		out = append(out, dir)
	}
	return out
}

// Containment returns the containment measures of an instance's process; none while there is no process.
func (h *Host) Containment(instance string) []jail.Measure {
	sup, err := h.supervisor(instance)
	if err != nil {
		return nil
	}
	sup.mu.Lock()
	defer sup.mu.Unlock()
	return sup.measures
}
