package config

import (
	"fmt"
	"reflect"
)

// RestartNeeded returns an error for the first change that takes effect after a restart only; nil if there is none.
func RestartNeeded(old, next *Config) error {
	for _, k := range []struct {
		key        string
		was, wants any
	}{
		{"store.dir", old.Store.Dir, next.Store.Dir},
		{"store.max_age_hours", old.Store.MaxAgeHours, next.Store.MaxAgeHours},
		{"media", old.Media, next.Media},
		{"plugins.dir", old.Plugins.Dir, next.Plugins.Dir},
		{"plugins.dev_paths", old.Plugins.DevPaths, next.Plugins.DevPaths},
		{"gateway.listen", old.Gateway.Listen, next.Gateway.Listen},
		{"gateway.token_file", old.Gateway.TokenFile, next.Gateway.TokenFile},
		{"gateway.origins", old.Gateway.Origins, next.Gateway.Origins},
		{"gateway.hooks_listen", old.Gateway.HooksListen, next.Gateway.HooksListen},
		{"gateway.public_url", old.Gateway.PublicURL, next.Gateway.PublicURL},
		{"sandbox.enabled", old.Sandbox.Enabled, next.Sandbox.Enabled},
		{"sandbox.engine", old.Sandbox.Engine, next.Sandbox.Engine},
		{"sandbox.pause_after", old.Sandbox.PauseAfter, next.Sandbox.PauseAfter},
		{"sandbox.idle_after", old.Sandbox.IdleAfter, next.Sandbox.IdleAfter},
		{"sandbox.max_age", old.Sandbox.MaxAge, next.Sandbox.MaxAge},
		{"sandbox.lease", old.Sandbox.Lease, next.Sandbox.Lease},
		{"budgets.parallel_turns", old.Budgets.ParallelTurns, next.Budgets.ParallelTurns},
	} {
		if !reflect.DeepEqual(k.was, k.wants) {
			return fmt.Errorf("%s: %s changed from %v to %v: restart flynn to change it", next.Path, k.key, k.was, k.wants)
		}
	}
	return nil
}
