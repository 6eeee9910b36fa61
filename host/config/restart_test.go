package config

import (
	"context"
	"fmt"
	"slices"
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
		keys := RestartKeys(load(), next)
		if free := key == "" || strings.Contains(key, "("); free != (len(keys) == 0) || !free && (len(keys) != 1 || keys[0] != key) {
			t.Errorf("%q: %v", key, keys)
		}
		err := RestartNeeded(load(), next)
		if refused := slices.Contains([]string{"sandbox.enabled", "plugins.dev_paths"}, key); refused != (err != nil) || refused && !strings.Contains(err.Error(), key) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// TestWaitingForARestart: a change of a key that is read at the start is taken up, waits, and is gone again when the file says what runs.
func TestWaitingForARestart(t *testing.T) {
	h, path, _ := openHolder(t)
	file := func(text string) { write(t, path, minimal+text, 0o600) }
	runs := h.Current().Store.MaxAgeHours
	var staged *Config
	h.Subscribe(func(_ context.Context, _, next *Config) (commit, rollback func(), err error) {
		staged = next
		return nil, nil, nil
	})
	file("[budgets]\nsteps_per_turn = 7\n[store]\nmax_age_hours = 3\n")
	if err := h.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := h.Current()
	if c.Store.MaxAgeHours != runs || c.Budgets.StepsPerTurn != 7 || staged != c || len(c.Waiting) != 1 || c.Waiting[0] != (Waiting{"store.max_age_hours", fmt.Sprint(runs), "3"}) {
		t.Errorf("%+v, %v", c.Waiting, c.Store.MaxAgeHours)
	}
	file("")
	if err := h.Reload(t.Context()); err != nil || len(h.Current().Waiting) > 0 {
		t.Errorf("%v, %v", err, h.Current().Waiting)
	}
	file("[store]\nmax_age_hours = 3\ndir = \"elsewhere\"\n")
	if err := h.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "restart flynn") || h.Current().Store.MaxAgeHours != runs {
		t.Errorf("a key that cannot wait: %v", err)
	}
}
