package sandbox

import (
	"maps"
	"slices"

	"context"

	"github.com/flynnhost/flynn/host/sandbox/egress"
)

// SetNetwork gives proxies another network: a test's, in which names and public addresses lead to its own listeners.
func (c *Config) SetNetwork(n egress.Network) { c.Network = n }

// ProvideVolume lets tests ask for a volume as launches do.
func (m *Manager) ProvideVolume(ctx context.Context, session, name, image string, uid, gid int) (string, error) {
	return m.volumes.provide(ctx, volume{name: name, session: session}, image, owner{uid, gid})
}

// Held are the keys of the containers that the process has, or is making or removing.
func (m *Manager) Held() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.held))
}
