package sandbox

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/sandbox/launch"
	"github.com/flynnhost/flynn/host/sandbox/pool"
	"github.com/flynnhost/flynn/host/sandbox/spec"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
)

// SetNetwork gives proxies another network: a test's, in which names and public addresses lead to its own listeners.
func (c *Config) SetNetwork(n egress.Network) { c.Network = n }

// SetInspectEvery has the pools looked at more often.
func (c *Config) SetInspectEvery(d time.Duration) { c.inspect = d }

// SetMemory says how much memory the machine has left.
func (c *Config) SetMemory(memory func() (pool.Memory, error)) { c.memory = memory }

// ProvideVolume lets tests ask for a volume as launches do.
func (m *Manager) ProvideVolume(ctx context.Context, session, name, image string, uid, gid int) (string, error) {
	if err := spec.CheckVolumeName(name); err != nil {
		return "", err
	}
	engineName, _, err := m.launcher.Volumes.Provide(ctx, launch.Volume{Name: name, Session: session}, image, workspace.Owner{UID: uid, GID: gid})
	return engineName, err
}

// Held are the keys of the containers that the process has, or is making or removing.
func (m *Manager) Held() []string {
	return m.here.Keys.All()
}

// Bridged returns the second container of a session's bridge.
func (m *Manager) Bridged(ctx context.Context, session message.WorkspaceKey, b spec.Bridge) (*Session, error) {
	return m.Get(ctx, session, bridgeName(b.Name), b.Spec())
}
