package backend

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

// Sessions are the sessions of agents, which the command line imports and deletes.
type Sessions struct {
	Keeper *session.Keeper
	Turns  interface {
		// Renewed calls write, which replaces a session, while no turn of its conversation runs.
		Renewed(key message.SessionKey, write func() error) error
	}
	Store interface {
		PutSession(ctx context.Context, s turnlog.Session, turns []turnlog.SessionTurn, sum *turnlog.Summary) error
	}
	Log *slog.Logger
}

var _ gateway.Sessions = Sessions{}

// ImportSession implements gateway.Sessions.
func (s Sessions) ImportSession(ctx context.Context, file io.Reader) (gateway.ImportedSession, error) {
	f, err := session.Read(file)
	if err != nil {
		return gateway.ImportedSession{}, fmt.Errorf("%w: %w", gateway.ErrBadFile, err)
	}
	err = s.Turns.Renewed(f.Session.Key, func() error {
		return s.Store.PutSession(context.WithoutCancel(ctx), f.Session, f.Turns, f.Summary)
	})
	if err == nil {
		s.Log.Info("session imported", "session", f.Session.Key, "turns", f.Session.Turns)
	}
	return gateway.ImportedSession(f.Session), err
}

// DeleteSession implements gateway.Sessions.
func (s Sessions) DeleteSession(ctx context.Context, key message.SessionKey, by string, stop bool) error {
	return s.Keeper.Delete(ctx, key, by, stop)
}
