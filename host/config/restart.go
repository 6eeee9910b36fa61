package config

import (
	"fmt"
	"reflect"
	"slices"
)

// startKey is a key that is read at the start alone.
type startKey struct {
	name string
	of   func(c *Config) any // a pointer to its value
	// refused is true for a key that cannot wait for a restart: commands, which read the file, find the running flynn by it, or other keys are
	// only right together with it.
	refused bool
}

func startKeys() []startKey {
	return []startKey{
		{"store.dir", func(c *Config) any { return &c.Store.Dir }, true},
		{"store.url_env", func(c *Config) any { return &c.Store.URLEnv }, true},
		{"cluster.host", func(c *Config) any { return &c.Cluster.Host }, true},
		{"cluster.host_env", func(c *Config) any { return &c.Cluster.HostEnv }, true},
		{"cluster.listen", func(c *Config) any { return &c.Cluster.Listen }, false},
		{"cluster.advertise", func(c *Config) any { return &c.Cluster.Advertise }, false},
		{"store.max_age_hours", func(c *Config) any { return &c.Store.MaxAgeHours }, false},
		{"media", func(c *Config) any { return &c.Media }, false},
		{"plugins.dir", func(c *Config) any { return &c.Plugins.Dir }, true},
		{"plugins.dev_paths", func(c *Config) any { return &c.Plugins.DevPaths }, true},
		{"gateway.listen", func(c *Config) any { return &c.Gateway.Listen }, true},
		{"gateway.token_file", func(c *Config) any { return &c.Gateway.TokenFile }, true},
		{"gateway.origins", func(c *Config) any { return &c.Gateway.Origins }, false},
		{"gateway.preview_origin", func(c *Config) any { return &c.Gateway.PreviewOrigin }, false},
		{"gateway.hooks_listen", func(c *Config) any { return &c.Gateway.HooksListen }, false},
		{"gateway.public_url", func(c *Config) any { return &c.Gateway.PublicURL }, false},
		{"sandbox.enabled", func(c *Config) any { return &c.Sandbox.Enabled }, true},
		{"sandbox.engine", func(c *Config) any { return &c.Sandbox.Engine }, true},
		{"sandbox.pause_after", func(c *Config) any { return &c.Sandbox.PauseAfter }, false},
		{"sandbox.idle_after", func(c *Config) any { return &c.Sandbox.IdleAfter }, false},
		{"sandbox.max_age", func(c *Config) any { return &c.Sandbox.MaxAge }, false},
		{"sandbox.lease", func(c *Config) any { return &c.Sandbox.Lease }, false},
		{"budgets.parallel_turns", func(c *Config) any { return &c.Budgets.ParallelTurns }, false},
	}
}

func (k startKey) value(c *Config) reflect.Value { return reflect.ValueOf(k.of(c)).Elem() }

func (k startKey) same(a, b *Config) bool {
	return reflect.DeepEqual(k.value(a).Interface(), k.value(b).Interface())
}

// RestartNeeded returns an error for the first change that a running flynn refuses; nil if there is none. Changes of other keys that are read at
// the start alone wait for the next start.
func RestartNeeded(old, next *Config) error {
	for _, k := range startKeys() {
		if k.refused && !k.same(old, next) {
			return fmt.Errorf("%s: %s changed from %v to %v: restart flynn to change it", next.Path, k.name, k.value(old), k.value(next))
		}
	}
	return nil
}

// RestartKeys returns the keys whose change takes effect after a restart only.
func RestartKeys(old, next *Config) (keys []string) {
	for _, k := range startKeys() {
		if !k.same(old, next) {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// Refused reports whether a running flynn refuses a change of a key that is read at the start alone.
func Refused(key string) bool {
	return slices.ContainsFunc(startKeys(), func(k startKey) bool { return k.refused && k.name == key })
}

// Waiting is a key whose value in the file is in force after a restart.
type Waiting struct {
	Key    string
	Runs   string // the value that the running flynn has
	Wanted string
}

// keepStart has a configuration run on with what is read at the start alone, and notes what waits for the next one.
func keepStart(old, next *Config) {
	next.shared = next.SharedDigest()
	for _, k := range startKeys() {
		if k.same(old, next) {
			continue
		}
		runs, wanted := k.value(old), k.value(next)
		next.Waiting = append(next.Waiting, Waiting{k.name, fmt.Sprint(runs), fmt.Sprint(wanted)})
		wanted.Set(runs)
	}
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
