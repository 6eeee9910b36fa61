package instances

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/install/signing"
	"github.com/flynnhost/flynn/host/plugin"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
	sandboxkind "github.com/flynnhost/flynn/host/plugin/kind/sandbox"
	toolkind "github.com/flynnhost/flynn/host/plugin/kind/tools"
)

// Trust returns the keys whose signatures a configuration trusts.
func Trust(c *config.Config) signing.Trust {
	trust := signing.Trust{Required: c.PluginTrust.RequireSignature, Table: "[plugin_trust]"}
	for _, key := range c.PluginTrust.Keys {
		trust.Keys = append(trust.Keys, signing.Key(key)) // the check of the configuration has parsed it
	}
	return trust
}

// CheckSettings returns the errors in the settings of a plugin's instances, by the plugin's schema. An instance with such errors does not
// start; the others and the host do.
func CheckSettings(c *config.Config, name string, s *plugin.Settings) config.Errors {
	var out config.Errors
	for _, i := range Of(c, name) {
		wrong, err := s.Check(i.Settings)
		if err != nil {
			wrong = []plugin.SettingError{{Problem: err.Error()}}
		}
		for _, w := range wrong {
			key := slices.Concat([]string{plugin.AllKinds().Get(i.Kind).Section(), i.Name}, w.Key)
			e := config.Error{File: c.Path, Line: c.Line(key...), Key: config.KeyString(key...), Problem: w.Problem}
			if len(w.Known) > 0 && len(w.Key) > 0 {
				e.Hint = hint(w.Key[len(w.Key)-1], w.Known)
			}
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b config.Error) int { return cmp.Compare(a.Line, b.Line) })
	return out
}

// CheckAllSettings is CheckSettings for every installed plugin that the configuration uses.
func CheckAllSettings(c *config.Config) config.Errors {
	used := map[string]bool{}
	for _, use := range c.Channels {
		used[use.Plugin] = true
	}
	for _, use := range c.Tools {
		used[use.Plugin] = true
	}
	for _, use := range c.UsedDrivers() {
		used[use.Plugin] = true
	}
	var out config.Errors
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if len(Of(c, name)) == 0 {
			continue
		}
		if s, err := settingsOf(c, name); err == nil { // a plugin that is missing or does not verify is reported elsewhere
			out = append(out, CheckSettings(c, name, s)...)
		}
	}
	return out
}

// Where returns the position of an instance's setting in the file, or that of the table around it, such as "flynn.toml:12: ".
func Where(c *config.Config, section, instance string, key []string) string {
	if line := c.Line(slices.Concat([]string{section, instance}, key)...); line > 0 {
		return fmt.Sprintf("%s:%d: ", c.Path, line)
	}
	return c.Path + ": "
}

// hint suggests a key instead of an unknown one.
func hint(key string, all []string) string {
	if near := config.Nearest(key, all); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Sprintf("the plugin has the keys %q", all)
}

// Of returns the enabled instances of a plugin, with the settings that their processes would get.
func Of(c *config.Config, name string) []plugin.Instance {
	var out []plugin.Instance
	for _, instance := range slices.Sorted(maps.Keys(c.Channels)) {
		if use := c.Channels[instance]; use.Enabled && use.Plugin == name {
			out = append(out, plugin.Instance{Name: instance, Plugin: name, Kind: channelkind.Name, Settings: use.Settings})
		}
	}
	for _, instance := range slices.Sorted(maps.Keys(c.Tools)) {
		use := c.Tools[instance]
		if !use.Enabled || use.Plugin != name {
			continue
		}
		i := plugin.Instance{Name: instance, Plugin: name, Kind: toolkind.Name, Settings: use.Settings}
		if use.Sandbox.Enabled {
			i.Settings = use.Reach("/run/server") // as the plugin of a server in a sandbox gets them, with another name
		}
		out = append(out, i)
	}
	for instance, use := range c.UsedDrivers() {
		if use.Plugin == name {
			out = append(out, plugin.Instance{Name: instance, Plugin: name, Kind: sandboxkind.Name, Settings: use.Settings})
		}
	}
	return out
}

func settingsOf(c *config.Config, name string) (*plugin.Settings, error) {
	if dir, ok := c.Plugins.DevPaths[name]; ok {
		return plugin.ReadSettings(dir)
	}
	store, err := plugin.OpenStore(c.Plugins.Dir)
	if err != nil {
		return nil, err
	}
	return store.Settings(name, "")
}
