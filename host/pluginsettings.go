package host

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin"
)

// PluginSettings says what a plugin's schema does not take of the settings of its instances. Such an instance does not start; the others
// and the host do.
func PluginSettings(c *config.Config, name string, s *plugin.Settings) config.Errors {
	var out config.Errors
	for _, i := range instancesOf(c, name) {
		wrong, err := s.Check(i.Settings)
		if err != nil {
			wrong = []plugin.SettingError{{Problem: err.Error()}}
		}
		for _, w := range wrong {
			key := instanceKey(i.Kind, i.Name, w.Key)
			e := config.Error{File: c.Path, Line: c.Line(key...), Key: config.KeyString(key...), Problem: w.Problem}
			if len(w.Known) > 0 && len(w.Key) > 0 {
				e.Hint = known(w.Key[len(w.Key)-1], w.Known)
			}
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b config.Error) int { return cmp.Compare(a.Line, b.Line) })
	return out
}

// known helps with a key that a plugin does not know.
func known(key string, all []string) string {
	if near := config.Nearest(key, all); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Sprintf("the plugin knows %q", all)
}

// instancesOf are the enabled instances of a plugin, with the settings that its process would get.
func instancesOf(c *config.Config, name string) []plugin.Instance {
	var out []plugin.Instance
	for _, instance := range slices.Sorted(maps.Keys(c.Channels)) {
		if use := c.Channels[instance]; use.Enabled && use.Plugin == name {
			out = append(out, plugin.Instance{Name: instance, Plugin: name, Kind: plugin.Channel, Settings: use.Settings})
		}
	}
	for _, instance := range slices.Sorted(maps.Keys(c.Tools)) {
		use := c.Tools[instance]
		if !use.Enabled || use.Plugin != name {
			continue
		}
		i := plugin.Instance{Name: instance, Plugin: name, Kind: plugin.Tools, Settings: use.Settings}
		if use.Sandbox.Enabled {
			i.Settings = use.Reach("/run/server") // as encloseServer says, with another name
		}
		out = append(out, i)
	}
	return out
}

// instanceKey leads to a setting of an instance.
func instanceKey(kind plugin.Kind, instance string, key []string) []string {
	table := "channels"
	if kind == plugin.Tools {
		table = "tools"
	}
	return slices.Concat([]string{table, instance}, key)
}

// SettingsOfPlugins says what is wrong with the settings of all instances whose plugins are there, as PluginSettings does.
func SettingsOfPlugins(c *config.Config) config.Errors {
	used := map[string]bool{}
	for _, use := range c.Channels {
		used[use.Plugin] = used[use.Plugin] || use.Enabled
	}
	for _, use := range c.Tools {
		used[use.Plugin] = used[use.Plugin] || use.Enabled
	}
	var out config.Errors
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !used[name] {
			continue
		}
		if s, err := settingsOf(c, name); err == nil { // of a plugin that is not there or does not verify others tell
			out = append(out, PluginSettings(c, name, s)...)
		}
	}
	return out
}

func settingsOf(c *config.Config, name string) (*plugin.Settings, error) {
	if dir, ok := c.Plugins.DevPaths[name]; ok {
		return plugin.ReadSettings(dir)
	}
	if _, err := os.Stat(c.Plugins.Dir); err != nil {
		return nil, err // a look makes no folder
	}
	store, err := plugin.OpenStore(c.Plugins.Dir)
	if err != nil {
		return nil, err
	}
	return store.Settings(name, "")
}
