package config

import (
	"strings"
	"testing"
)

// TestRestartNeeded: a key that only a start reads must not be taken as changed.
func TestRestartNeeded(t *testing.T) {
	for key, change := range map[string]func(*Config){
		"gateway.origins":      func(c *Config) { c.Gateway.Origins = nil },
		"sandbox.enabled":      func(c *Config) { c.Sandbox.Enabled = true },
		"sandbox.lease":        func(c *Config) { c.Sandbox.Lease = 1 },
		"store.max_age_hours":  func(c *Config) { c.Store.MaxAgeHours = 1 },
		"plugins.dev_paths":    func(c *Config) { c.Plugins.DevPaths = map[string]string{"irc": "/b"} },
		"sandbox.image (warm)": func(c *Config) { c.Sandbox.Image = "b" },
		"":                     func(*Config) {},
	} {
		load := func() *Config {
			return &Config{
				Gateway: Gateway{Origins: []string{"http://localhost:9000"}},
				Plugins: Plugins{DevPaths: map[string]string{"irc": "/a"}},
				Store:   Store{MaxAgeHours: 24},
			}
		}
		next := load()
		change(next)
		err := RestartNeeded(load(), next)
		if free := key == "" || strings.Contains(key, "("); free != (err == nil) || err != nil && !strings.Contains(err.Error(), key) {
			t.Errorf("%q: %v", key, err)
		}
	}
}
