package admin

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"time"

	"github.com/flynnhost/flynn/host/admin/sandboxes"
	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// Sessions returns the sessions of a configuration, latest first.
func Sessions(ctx context.Context, c *config.Config, limit int) ([]gateway.SessionInfo, error) {
	list, err := read(ctx, c, func(r *sqlstore.Reader) ([]turnlog.Session, error) { return r.Sessions(ctx, limit) })
	return backend.SessionInfos(list), err
}

// Transcript returns what was said and done in a session.
func Transcript(ctx context.Context, c *config.Config, key message.SessionKey) ([]session.Piece, error) {
	return read(ctx, c, func(r *sqlstore.Reader) ([]session.Piece, error) {
		pieces, _, err := session.Transcript(ctx, r, key, "", math.MaxInt)
		return pieces, err
	})
}

// ExportSession writes a session as session.Read reads it.
func ExportSession(ctx context.Context, c *config.Config, key message.SessionKey, w io.Writer) error {
	_, err := read(ctx, c, func(r *sqlstore.Reader) (struct{}, error) {
		return struct{}{}, session.Export(ctx, r, key, time.Now(), w)
	})
	return err
}

// ChangeSessions calls do with the sessions of a configuration, for changing them. It fails while a host runs.
func ChangeSessions(ctx context.Context, c *config.Config, do func(turnlog.Archive) error) error {
	_, err := change(ctx, c, func(s store.Store) (struct{}, error) { return struct{}{}, do(s) })
	return err
}

// Scope returns the settings that people have chosen for a conversation scope. A host may be running.
func Scope(ctx context.Context, c *config.Config, key string) (turnlog.Scope, error) {
	return read(ctx, c, func(r *sqlstore.Reader) (turnlog.Scope, error) { return r.Scope(ctx, key) })
}

// DeleteSession deletes a session and, if it is the last one of its home, the home's containers and volumes with their content. The
// workspace stays. left is an error for what the engine still has, which the next start removes; files that were sent are removed then in
// any case. It fails while a host runs. launcher is the command that runs plugins in a jail.
func DeleteSession(ctx context.Context, c *config.Config, launcher []string, key message.SessionKey, by string) (left, err error) {
	return change(ctx, c, func(s store.Store) (left error, err error) {
		if err := s.DeleteSession(ctx, turnlog.Deletion{Key: key, By: by, At: time.Now().UTC()}); err != nil {
			return nil, err
		}
		return forget(ctx, c, launcher, s, turnlog.Leftover{Kind: turnlog.LeftContainers, Name: string(key.Parse().Workspace())}), nil
	})
}

// forget removes what the sessions of a home have outside of the store, if none of them is left.
func forget(ctx context.Context, c *config.Config, launcher []string, s turnlog.Leftovers, home turnlog.Leftover) error {
	gone, err := s.ListLeftovers(ctx, turnlog.LeftContainers)
	if err != nil || !slices.Contains(gone, home) {
		return err
	}
	err = fleet.FoldersOf(c.Store.Dir).RemoveHome(message.WorkspaceKey(home.Name))
	if err != nil || !c.Sandbox.Enabled {
		return err
	}
	a, err := sandboxes.Open(ctx, c, launcher)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fleet.ForgetTimeout)
	defer cancel()
	if err := errors.Join(a.Forget(ctx, home.Name), a.Driver.Close()); err != nil {
		return err
	}
	return s.DropLeftover(ctx, home)
}
