package plugin

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/plugin/jail"
)

// Containment says how processes are held in.
type Containment struct {
	// Launcher is the command that runs jail.Enter and becomes the plugin: the host's own program, as a rule. Without one nothing is
	// held in.
	Launcher []string
	// Required starts no plugin whose files and connections cannot be cut down.
	Required bool
	// Secret are files and folders of the host that no plugin may read. The launcher tries them.
	Secret []string
}

// jail returns what the process may use.
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

// secretFiles are what the launcher tries to read, and must not be able to: the store's lock, the folders of all states, and what the
// host named. A folder that holds the plugin's own cannot be among them, but its list of names can.
func (h *Host) secretFiles(own string) []string {
	out := slices.Clone(h.config.Contain.Secret)
	out = append(out, h.store.lock.Path, h.store.versions.Dir)
	if dir, err := filepath.Abs(h.config.StateDir); err == nil && dir != own {
		out = append(out, dir)
	}
	return out
}

// Containment returns what holds an instance's process in; nothing while there is none.
func (h *Host) Containment(instance string) []jail.Measure {
	sup, err := h.supervisor(instance)
	if err != nil {
		return nil
	}
	sup.mu.Lock()
	defer sup.mu.Unlock()
	return sup.measures
}
