package config

import (
	"fmt"
	"io"
	"maps"

	"github.com/BurntSushi/toml"
)

// Show writes the configuration as TOML with all defaults filled in and all paths absolute. Secrets appear only as the
// references that the file has. What it writes loads to the same configuration, wherever it lies.
func (c *Config) Show(w io.Writer) error {
	shown := *c
	shown.Channels, shown.Tools = nil, nil // their keys are the plugin's and come as maps below
	if err := encode(w, shown); err != nil {
		return err
	}
	plugins := map[string]map[string]any{"channels": {}, "tools": {}}
	for name, channel := range c.Channels {
		plugins["channels"][name] = channel.keys()
	}
	for name, provider := range c.Tools {
		plugins["tools"][name] = provider.keys()
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

// keys are the channel's keys as the file has them.
func (c Channel) keys() map[string]any {
	keys := map[string]any{"plugin": c.Plugin, "enabled": c.Enabled, "stream": c.Stream}
	for key, set := range map[string]bool{"critical": c.Critical, "trust_senders": c.TrustSenders} {
		if set {
			keys[key] = true
		}
	}
	for key, value := range map[string]string{"queue": c.Queue, "access": c.Access, "access_groups": c.AccessGroups} {
		if value != "" {
			keys[key] = value
		}
	}
	maps.Copy(keys, c.Settings)
	for key, ref := range c.refs {
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
