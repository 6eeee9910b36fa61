package host

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
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
