package backend

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"time"

	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

// Sessions are the sessions of agents, which the command line shows, exports, imports and deletes.
type Sessions struct {
	Keeper *session.Keeper
	Turns  interface {
		// Renewed calls write, which replaces a session, while no turn of its conversation runs.
		Renewed(key message.SessionKey, write func() error) error
	}
	Store interface {
		session.Source
		Sessions(ctx context.Context, limit int) ([]turnlog.Session, error)
		PutSession(ctx context.Context, s turnlog.Session, turns []turnlog.SessionTurn, sum *turnlog.Summary) error
	}
	Log *slog.Logger
}

var _ gateway.Sessions = Sessions{}

// Sessions implements gateway.Sessions.
func (s Sessions) Sessions(ctx context.Context) ([]gateway.SessionInfo, error) {
	list, err := s.Store.Sessions(ctx, math.MaxInt32)
	return SessionInfos(list), err
}

// SessionInfos returns sessions of the store as the gateway shows them.
func SessionInfos(list []turnlog.Session) []gateway.SessionInfo {
	out := []gateway.SessionInfo{}
	for _, s := range list {
		out = append(out, gateway.SessionInfo(s))
	}
	return out
}

// Transcript implements gateway.Sessions.
func (s Sessions) Transcript(ctx context.Context, key message.SessionKey, cursor string, limit int) (gateway.Page[session.Piece], error) {
	pieces, next, err := session.Transcript(ctx, s.Store, key, cursor, limit)
	return gateway.Page[session.Piece]{Items: pieces, Next: next}, err
}

// ExportSession implements gateway.Sessions.
func (s Sessions) ExportSession(ctx context.Context, key message.SessionKey, w io.Writer) error {
	return session.Export(ctx, s.Store, key, time.Now(), w)
}

// ImportSession implements gateway.Sessions.
func (s Sessions) ImportSession(ctx context.Context, file io.Reader) (gateway.SessionInfo, error) {
	f, err := session.Read(file)
	if err != nil {
		return gateway.SessionInfo{}, fmt.Errorf("%w: %w", gateway.ErrBadFile, err)
	}
	err = s.Turns.Renewed(f.Session.Key, func() error {
		return s.Store.PutSession(context.WithoutCancel(ctx), f.Session, f.Turns, f.Summary)
	})
	if err == nil {
		s.Log.Info("session imported", "session", f.Session.Key, "turns", f.Session.Turns)
	}
	return gateway.SessionInfo(f.Session), err
}

// DeleteSession implements gateway.Sessions.
func (s Sessions) DeleteSession(ctx context.Context, key message.SessionKey, by string, stop bool) error {
	return s.Keeper.Delete(ctx, key, by, stop)
}
