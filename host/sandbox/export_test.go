package sandbox

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/egress"
)

// SetNetwork gives proxies another network: a test's, in which names and public addresses lead to its own listeners.
func (c *Config) SetNetwork(n egress.Network) { c.network = n }

// SetInspectEvery has the pools looked at more often.
func (c *Config) SetInspectEvery(d time.Duration) { c.inspect = d }

// ProvideVolume lets tests ask for a volume as launches do.
func (m *Manager) ProvideVolume(ctx context.Context, session, name, image string, uid, gid int) (string, error) {
	return m.volumes.provide(ctx, volume{name: name, session: session}, image, owner{uid, gid})
}
