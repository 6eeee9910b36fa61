package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/session"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// SessionsAtHand opens the sessions of a configuration to be read; a host may be running. The caller closes it.
func SessionsAtHand(ctx context.Context, c *config.Config) (*sqlite.Reader, error) {
	return sqlite.OpenReader(ctx, c.Store.Dir)
}

// ChangeSessions lets do change the sessions of a configuration while no host runs.
func ChangeSessions(ctx context.Context, c *config.Config, do func(store.Archive) error) error {
	s, err := sqlite.Open(ctx, c.Store.Dir)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

// ImportSession implements gateway.Sessions.
func (b backend) ImportSession(ctx context.Context, file io.Reader) (gateway.ImportedSession, error) {
	f, err := session.Read(file)
	if err != nil {
		return gateway.ImportedSession{}, fmt.Errorf("%w: %w", gateway.ErrBadFile, err)
	}
	err = b.h.runner.Renewed(f.Session.Key, func() error {
		return b.h.store.PutSession(context.WithoutCancel(ctx), f.Session, f.Turns, f.Summary)
	})
	if err == nil {
		b.h.log.Info("session imported", "session", f.Session.Key, "turns", f.Session.Turns)
	}
	return gateway.ImportedSession(f.Session), err
}

var _ gateway.Sessions = backend{}

// DeleteSession removes a session while no host runs, and with the last one of its home what that has on the engine: containers, and
// volumes with what is in them. Its workspace stays. left is why the engine has something still, which the next start removes.
func DeleteSession(ctx context.Context, c *config.Config, key string) (left, err error) {
	s, err := sqlite.Open(ctx, c.Store.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err = s.DeleteSession(ctx, key); err == nil && c.Sandbox.Enabled {
		left = forgetHome(ctx, c, s, store.SessionHome(key))
	}
	return left, err
}

func forgetHome(ctx context.Context, c *config.Config, sessions *sqlite.Store, home string) error {
	list, err := sessions.Sessions(ctx, math.MaxInt32)
	if err != nil || slices.ContainsFunc(list, func(s store.Session) bool { return store.SessionHome(s.Key) == home }) {
		return err
	}
	s, err := OpenSandboxes(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	return errors.Join(s.Forget(ctx, home), s.Driver.Close())
}
