package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/sandbox/engine"
)

// Driver is the name of the [drivers] table that makes the sandboxes; "" if no plugin does.
func (s Sandbox) Driver() string {
	name, _ := strings.CutPrefix(s.Engine, engine.DriverPrefix)
	if name == s.Engine {
		return ""
	}
	return name
}

// UsedDrivers are the drivers whose plugins run, by name: at most one, that of [sandbox].
func (c *Config) UsedDrivers() map[string]Driver {
	name := c.Sandbox.Driver()
	if d, known := c.Drivers[name]; known && c.Sandbox.Enabled {
		return map[string]Driver{name: d}
	}
	return nil
}

// Same reports whether two configurations of a driver have the same process.
func (d Driver) Same(other Driver) bool {
	return d.Plugin == other.Plugin && d.Public == other.Public && reflect.DeepEqual(d.Settings, other.Settings) && maps.Equal(d.Secrets, other.Secrets) &&
		slices.Equal(d.Read, other.Read) && slices.Equal(d.Write, other.Write) && slices.Equal(d.Sockets, other.Sockets) &&
		slices.Equal(d.Network, other.Network) && d.MemoryLimit == other.MemoryLimit
}

// driver reads one driver: our own keys, references to secrets, and the keys of the plugin.
func (d *decoder) driver(at keyPath, raw any, into *Driver) {
	d.instance(at, raw, reflect.ValueOf(into).Elem(), func(of Channel) {
		into.Settings, into.Secrets, into.refs = of.Settings, of.Secrets, of.refs
	})
}

func (c *checker) drivers() {
	used := c.cfg.UsedDrivers()
	for _, name := range sorted(c.cfg.Drivers) {
		d, at := c.cfg.Drivers[name], keyPath{"drivers", name}
		c.required(at.child("plugin"), d.Plugin, `"NAME" of an installed plugin of kind sandbox`)
		c.networkGrants(at.child("network"), d.Network)
		_, runs := used[name]
		as := Channel{Enabled: runs, Settings: d.Settings, Secrets: d.Secrets, refs: d.refs}
		for _, key := range sorted(d.refs) {
			c.channelSecret(at.child(key), as)
		}
	}
}

// driverName checks the name of a driver, which is also the name of a plugin's instance.
func (c *checker) driverName(at keyPath, name string) {
	_, isChannel := c.cfg.Channels[name]
	_, isProvider := c.cfg.Tools[name]
	switch {
	case isChannel || BuiltinChannel(name):
		c.report(at, fmt.Sprintf("%q is a channel", name), "choose another name")
	case isProvider:
		c.report(at, fmt.Sprintf("%q provides tools", name), "choose another name")
	case len(name) > maxProviderName:
		c.report(at, "name is too long", fmt.Sprintf("at most %d characters", maxProviderName))
	default:
		c.name(at, name)
	}
}
