package sandbox

import (
	"context"

	"github.com/flynnhost/flynn/host/sandbox/egress"
)

// SetNetwork gives proxies another network: a test's, in which names and public addresses lead to its own listeners.
func (c *Config) SetNetwork(n egress.Network) { c.network = n }

// ProvideVolume lets tests ask for a volume as launches do.
func (m *Manager) ProvideVolume(ctx context.Context, session, name, image string, uid, gid int) (string, error) {
	if !volumeNames.MatchString(name) {
		return "", badVolumeName(name)
	}
	return m.volumes.provide(ctx, volume{name: name, session: session}, image, owner{uid, gid})
}
