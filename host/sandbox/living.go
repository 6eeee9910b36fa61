package sandbox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/image"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

// Living describes a session's sandbox that has a live container.
type Living struct {
	ID      string // of the container
	Session message.WorkspaceKey
	Name    string // of the sandbox
	Spec    spec.Spec
	Image   string
	Since   time.Time // the container was created
	Idle    time.Time // since when; zero while it is in use
	// Processes are those in the background.
	Processes []machine.Process
}

// Live returns the sandboxes with a live container, the oldest first.
func (m *Manager) Live() []Living {
	var all []Living
	for _, s := range m.sessions.all() {
		c := s.current()
		if c == nil || c.Dead() {
			continue
		}
		l := Living{ID: c.ID(), Session: s.session, Name: s.name, Spec: s.spec, Image: c.Image(), Since: c.Born(), Processes: c.List()}
		if since, idle := c.Idle(); idle {
			l.Idle = since
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b Living) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return all
}

// LiveSession returns the sandbox whose live container has that id.
func (m *Manager) LiveSession(id string) (*Session, bool) {
	for _, s := range m.sessions.all() {
		if c := s.current(); c != nil && c.ID() == id && !c.Dead() {
			return s, true
		}
	}
	return nil, false
}

// Containers returns the containers of this instance, with their session and sandbox in the labels.
func (m *Manager) Containers(ctx context.Context) ([]driver.Owned, error) {
	owned, err := m.config.Driver.List(ctx, m.config.Instance)
	return WithOwners(m.config.WorkspaceRoot, m.config.Instance, owned), err
}

// Usage returns what a container uses now; errors.ErrUnsupported if the engine cannot tell.
func (m *Manager) Usage(ctx context.Context, id string) (driver.Usage, error) {
	meter, ok := m.config.Driver.(driver.Meter)
	if !ok {
		return driver.Usage{}, errors.ErrUnsupported
	}
	return meter.Usage(ctx, id)
}

// Prepared returns a specification with its image replaced by one that has been built.
func (m *Manager) Prepared(ctx context.Context, wanted spec.Spec) (spec.Spec, error) {
	if wanted.Recipe().Strategy() == image.AsIs {
		return wanted, nil
	}
	ref, err := m.Images().Prepare(ctx, wanted)
	wanted.Image, wanted.Packages, wanted.Binaries, wanted.Dockerfile, wanted.BuildContext = ref, nil, nil, "", ""
	return wanted, err
}
