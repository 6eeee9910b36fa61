package config

import (
	"fmt"
	"io"
	"maps"
	"reflect"

	"github.com/BurntSushi/toml"
)

// Show writes the configuration as TOML with all defaults filled in and all paths absolute. Of secrets it writes the
// references only. The result loads to the same configuration from any folder.
func (c *Config) Show(w io.Writer) error {
	shown := *c
	shown.Channels, shown.Tools, shown.Drivers = nil, nil, nil // their keys are the plugin's and come as maps below
	if err := encode(w, shown); err != nil {
		return err
	}
	plugins := map[string]map[string]any{"channels": {}, "tools": {}, "drivers": {}}
	for name, channel := range c.Channels {
		plugins["channels"][name] = ownKeys(channel, channel.Settings, channel.refs)
	}
	for name, provider := range c.Tools {
		keys := ownKeys(provider, provider.Settings, provider.refs)
		rules := map[string]any{}
		for own, rule := range provider.Tool {
			rules[own] = ownKeys(rule, nil, nil)
		}
		if len(rules) > 0 {
			keys["tool"] = rules
		}
		plugins["tools"][name] = keys
	}
	for name, driver := range c.Drivers {
		plugins["drivers"][name] = ownKeys(driver, driver.Settings, driver.refs)
	}
	maps.DeleteFunc(plugins, func(_ string, instances map[string]any) bool { return len(instances) == 0 })
	if len(plugins) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return fmt.Errorf("show the configuration: %w", err)
	}
	return encode(w, plugins)
}

// ownKeys are the keys of a plugin's instance as the file has them, those of the plugin and its references to secrets included. Keys
// without a value are left out, unless that differs from their default.
func ownKeys(instance any, settings map[string]any, refs map[string]string) map[string]any {
	v, keys := reflect.ValueOf(instance), map[string]any{}
	for _, f := range fieldsOf(v.Type()) {
		if value := v.Field(f.index); !value.IsZero() || !defaults(v.Type()).Field(f.index).IsZero() {
			keys[f.key] = value.Interface()
		}
	}
	maps.Copy(keys, settings)
	for key, ref := range refs {
		keys[key] = ref
	}
	return keys
}

func encode(w io.Writer, v any) error {
	enc := toml.NewEncoder(w)
	enc.Indent = ""
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("show the configuration: %w", err)
	}
	return nil
}
