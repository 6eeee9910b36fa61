package host

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/erase"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/workspace"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// DeleteSession implements gateway.Sessions.
func (b backend) DeleteSession(ctx context.Context, key, by string, stop bool) error {
	return b.h.sessions.Delete(ctx, key, by, stop)
}

var _ gateway.Conversations = backend{}

// DeleteConversation implements gateway.Conversations for the doors of this machine, where a conversation is a place.
func (b backend) DeleteConversation(ctx context.Context, channel, conversation, by string, stop bool) error {
	place := channel + ":" + conversation
	if !slices.Contains(config.OwnDoors(), channel) {
		return store.NotFound(place + " is no conversation of this machine: write /delete in it")
	}
	return b.h.sessions.DeleteConversation(ctx, place, by, stop)
}

// worded is an error in words for people.
type worded struct {
	text string
	err  error
}

func (w worded) Error() string { return w.text }
func (w worded) Unwrap() error { return w.err }

// goneHomes are those of deleted sessions that the engine may have something of.
func (h *Host) goneHomes(ctx context.Context) ([]string, error) {
	left, err := h.store.ListLeftovers(ctx, store.LeftHome)
	homes := make([]string, len(left))
	for i, l := range left {
		homes[i] = l.Name
	}
	return homes, err
}

func (h *Host) forgottenHome(ctx context.Context, home string) error {
	return h.store.DropLeftover(ctx, store.Leftover{Kind: store.LeftHome, Name: home})
}

// sandboxesOf is machines for the keeper of sessions.
type sandboxesOf struct{ *machines }

// Forget implements session.Sandboxes.
func (s sandboxesOf) Forget(ctx context.Context, homes map[string]bool) error {
	gone, err := s.gone(ctx)
	for _, home := range gone {
		if homes[home] {
			err = errors.Join(err, s.forget(ctx, home))
		}
	}
	for home := range homes {
		s.quota.Forget(home)
	}
	return err
}

// forget removes what a session has here and on the engine, its program's memory included. Its workspace stays. What cannot be removed now
// is when the engine is back, or at the next start.
func (m *machines) forget(ctx context.Context, home string) error {
	m.mu.Lock()
	manager, unavailable := m.manager, m.unavailable
	h := m.hosts[home]
	delete(m.hosts, home)
	m.mu.Unlock()
	var err error
	if h != nil {
		err = h.close()
	}
	err = errors.Join(err, m.forgetHome(home))
	switch {
	case errors.Is(unavailable, errSandboxOff): // nobody is to hear of an engine that he does not use
		return err
	case unavailable != nil || manager == nil:
		return errors.Join(err, unavailable)
	}
	return errors.Join(err, m.forgetOn(ctx, manager, home))
}

// forgetHome removes what commands of a session on the host have kept outside of its workspace.
func (m *machines) forgetHome(home string) error {
	return erase.Folder(workspace.Path(m.hostHomes, home))
}

func (m *machines) forgetOn(ctx context.Context, manager *sandbox.Manager, home string) error {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	if err := manager.Forget(ctx, home); err != nil {
		return err
	}
	return m.forgotten(ctx, home)
}

// forgetGone does what could not be done when sessions were deleted. Nobody is given a sandbox before it returns, so that nothing on the
// engine is of a session that began since.
func (m *machines) forgetGone(ctx context.Context, manager *sandbox.Manager) {
	homes, err := m.gone(ctx)
	for _, home := range homes {
		err = errors.Join(err, m.forgetHome(home), m.forgetOn(ctx, manager, home))
	}
	if err != nil {
		m.log.Warn("cannot remove deleted sessions from the engine", "error", machine.Reason(err))
	}
}

// DeleteSession removes a session while no host runs, and with the last one of its home what that has on the engine: containers, and
// volumes with what is in them. Its workspace stays. left is why the engine has something still, which the next start removes; files that
// were sent are removed then in any case.
func DeleteSession(ctx context.Context, c *config.Config, key, by string) (left, err error) {
	s, err := sqlite.Open(ctx, c.Store.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = s.DeleteSession(ctx, store.Deletion{Key: key, By: by, At: time.Now().UTC()})
	if err == nil {
		left = forgetAtRest(ctx, c, s, store.Leftover{Kind: store.LeftHome, Name: store.SessionHome(key)})
	}
	return left, err
}

func forgetAtRest(ctx context.Context, c *config.Config, rows *sqlite.Store, home store.Leftover) error {
	gone, err := rows.ListLeftovers(ctx, store.LeftHome)
	if err != nil || !slices.Contains(gone, home) {
		return err
	}
	err = erase.Folder(workspace.Path(hostHomes(filepath.Join(c.Store.Dir, "workspaces")), home.Name))
	if err != nil || !c.Sandbox.Enabled {
		return err
	}
	s, err := OpenSandboxes(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	if err := errors.Join(s.Forget(ctx, home.Name), s.Driver.Close()); err != nil {
		return err
	}
	return rows.DropLeftover(ctx, home)
}
