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
	shown.Channels = nil // their keys are the plugin's and come as a map below
	if err := encode(w, shown); err != nil {
		return err
	}
	if len(c.Channels) == 0 {
		return nil
	}
	channels := map[string]any{}
	for name, channel := range c.Channels {
		channels[name] = channel.keys()
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return fmt.Errorf("show the configuration: %w", err)
	}
	return encode(w, map[string]any{"channels": channels})
}

// keys are the channel's keys as the file has them.
func (c Channel) keys() map[string]any {
	keys := map[string]any{"plugin": c.Plugin, "enabled": c.Enabled, "stream": c.Stream}
	if c.Critical {
		keys["critical"] = true
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
