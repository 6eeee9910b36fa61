package host

import (
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/config"
)

// TestWhatAReloadCannotChangeIsRefused: a key that only a start reads must not be taken as changed.
func TestWhatAReloadCannotChangeIsRefused(t *testing.T) {
	for key, change := range map[string]func(*config.Config){
		"gateway.origins":      func(c *config.Config) { c.Gateway.Origins = nil },
		"sandbox.enabled":      func(c *config.Config) { c.Sandbox.Enabled = true },
		"store.max_age_hours":  func(c *config.Config) { c.Store.MaxAgeHours = 1 },
		"plugins.dev_paths":    func(c *config.Config) { c.Plugins.DevPaths = map[string]string{"irc": "/b"} },
		"sandbox.image (warm)": func(c *config.Config) { c.Sandbox.Image = "b" },
		"":                     func(*config.Config) {},
	} {
		load := func() *config.Config {
			return &config.Config{
				Gateway: config.Gateway{Origins: []string{"http://localhost:9000"}},
				Plugins: config.Plugins{DevPaths: map[string]string{"irc": "/a"}},
				Store:   config.Store{MaxAgeHours: 24},
			}
		}
		next := load()
		change(next)
		err := unchangeable(load(), next)
		if free := key == "" || strings.Contains(key, "("); free != (err == nil) || err != nil && !strings.Contains(err.Error(), key) {
			t.Errorf("%q: %v", key, err)
		}
	}
}
