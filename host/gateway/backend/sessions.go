package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

// Sessions are the sessions of agents, which the command line imports and deletes.
type Sessions struct {
	Turns interface {
		Running(place string) bool
		Delegated(place string) bool
		// Renewed calls write, which replaces a session, while no turn of its place runs.
		Renewed(key string, write func() error) error
	}
	Deleter Deleter
	Store   interface {
		PutSession(ctx context.Context, s store.Session, turns []store.SessionTurn, sum *store.Summary) error
	}
	Log *slog.Logger
}

// Deleter deletes sessions.
type Deleter interface {
	// DeleteSession deletes a session when nothing else runs in its place; with stop, the turn that runs there is stopped.
	DeleteSession(ctx context.Context, d store.Deletion, stop bool) error
	// Alone calls do when nothing else runs in a place; with stop, the turn that runs there is stopped.
	Alone(ctx context.Context, place string, stop bool, do func() error) error
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

// retryPause is the time between attempts to delete a session whose delegated turns are being stopped.
const retryPause = 50 * time.Millisecond

// DeleteSession implements gateway.Sessions.
func (s Sessions) DeleteSession(ctx context.Context, key, by string, stop bool) error {
	place, _, _ := store.SessionParts(key)
	for {
		if err := s.idle(place); err != nil && !stop {
			return err
		}
		err := s.Deleter.DeleteSession(ctx, store.Deletion{Key: key, By: by, At: time.Now().UTC()}, stop)
		if errors.Is(err, store.ErrNotFound) {
			return worded{fmt.Sprintf("no session %q (run \"flynn session list\")", key), err}
		}
		if !stop || !errors.Is(err, store.ErrConflict) {
			return err
		}
		select { // a delegated turn ends in a queue of its own
		case <-time.After(retryPause):
		case <-ctx.Done():
			return err
		}
	}
}

// idle returns an error while something runs in a place.
func (s Sessions) idle(place string) error {
	if s.Turns.Running(place) || s.Turns.Delegated(place) {
		return worded{fmt.Sprintf("an answer is being made in %s: wait for it, or have it stopped (flynn session delete --stop)", place), store.ErrConflict}
	}
	return nil
}
