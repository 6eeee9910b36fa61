package author

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/policy"
)

// About returns the policy.toml beside the module at path; false if there is none, or it is about another module.
func About(path string) (m Manifest, ok bool) {
	dir := filepath.Dir(path)
	m, err := LoadManifest(dir)
	return m, err == nil && m.modulePath(dir) == filepath.Clean(path)
}

// Policy returns the limits for the engine.
func (l Limits) Policy() policy.Limits {
	return policy.Limits{Fuel: l.Fuel, Memory: int64(l.Memory), Depth: l.Depth, HostCalls: l.HostCalls, Wall: time.Duration(l.Wall)}
}

// TOML returns the limits that are set, as the keys of an inline table.
func (l Limits) TOML() string {
	var keys []string
	add := func(set bool, format string, v any) {
		if set {
			keys = append(keys, fmt.Sprintf(format, v))
		}
	}
	add(l.Fuel != 0, "fuel = %d", l.Fuel)
	add(l.Memory != 0, `memory = "%db"`, int64(l.Memory))
	add(l.Depth != 0, "depth = %d", l.Depth)
	add(l.HostCalls != 0, "host_calls = %d", l.HostCalls)
	add(l.Wall != 0, "wall = %q", time.Duration(l.Wall).String())
	return strings.Join(keys, ", ")
}
