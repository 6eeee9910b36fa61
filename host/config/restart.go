package config

import (
	"fmt"
	"reflect"
)

// startKey is a key that is read at the start alone.
type startKey struct {
	key        string
	was, wants any
}

func startKeys(old, next *Config) (changed []startKey) {
	for _, k := range []startKey{
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
			changed = append(changed, k)
		}
	}
	return changed
}

// RestartNeeded returns an error for the first change that takes effect after a restart only; nil if there is none.
func RestartNeeded(old, next *Config) error {
	changed := startKeys(old, next)
	if len(changed) == 0 {
		return nil
	}
	k := changed[0]
	return fmt.Errorf("%s: %s changed from %v to %v: restart flynn to change it", next.Path, k.key, k.was, k.wants)
}

// RestartKeys returns the keys whose change takes effect after a restart only.
func RestartKeys(old, next *Config) (keys []string) {
	for _, k := range startKeys(old, next) {
		keys = append(keys, k.key)
	}
	return keys
}

// ChangedSections returns the top-level keys in which two configurations differ, in the order of the schema.
func ChangedSections(old, next *Config) (sections []string) {
	a, b := reflect.ValueOf(*old), reflect.ValueOf(*next)
	for _, f := range fieldsOf(a.Type()) {
		if !reflect.DeepEqual(a.Field(f.index).Interface(), b.Field(f.index).Interface()) {
			sections = append(sections, f.key)
		}
	}
	return sections
}
