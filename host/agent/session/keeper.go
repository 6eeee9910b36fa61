package session

import (
	"context"
	"log/slog"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Keeper deletes the sessions of a running host, on request or when they have expired, with everything that belongs to them.
//
// A session is deleted in the queue of its scope, while no turn runs there: first in the store, in one transaction that also notes what
// the store cannot remove, then on the engine and among the files. If a crash or an unavailable engine interrupts the second part, it
// is completed at the next start or when the engine is back.
type Keeper struct {
	Config
	deleted chan struct{} // buffered; tells Run to remove the files of deleted sessions
}

// Config configures a Keeper. All fields are required.
type Config struct {
	Store      Store
	Turns      Turns
	Queue      Queue
	Sandboxes  Sandboxes
	Files      Files
	Quota      Quota
	Media      Media
	Pairings   Pairings
	Elevations Elevations
	// Retention returns the retention of the configuration in force.
	Retention func() config.Retention
	Log       *slog.Logger
}

// Store is the part of the store that a Keeper uses.
type Store interface {
	Source
	turnlog.Archive
	turnlog.Leftovers
	store.Pruning
	Holders(ctx context.Context) ([]turnlog.Holder, error)
	Sessions(ctx context.Context, limit int) ([]turnlog.Session, error)
	History(ctx context.Context, channel, conversation string, turns int) ([]turnlog.Turn, error)
	AddAudit(ctx context.Context, rows []consent.AuditRow) error
}

// Turns are the running turns, by conversation scope.
type Turns interface {
	Running(scope string) bool
	// Delegated reports whether a delegated turn of a scope runs.
	Delegated(scope string) bool
	// Stop ends the turn that runs in a scope and all turns delegated there.
	Stop(scope string) bool
	// Forget drops a session from the cache.
	Forget(key message.SessionKey)
}

// Queue runs the work of each scope in order; *agent.Queue implements it.
type Queue interface {
	// Alone calls do when nothing else runs in a scope.
	Alone(scope string, do func())
}

// Sandboxes removes what commands of sessions have outside the workspace.
type Sandboxes interface {
	// Forget removes what deleted sessions have on the host and on the engine, by message.WorkspaceKey.
	Forget(ctx context.Context, workspaces map[message.WorkspaceKey]bool) error
}

// Quota counts the disk space of sessions, by message.WorkspaceKey.
type Quota interface {
	Restore(workspaceKey message.WorkspaceKey, sender message.SenderKey)
}

// Media stores the files that people sent.
type Media interface {
	// Drop removes a file that is no longer needed, and reports whether it is gone.
	Drop(ctx context.Context, digest string) (gone bool, err error)
}

// Pairings are the requests of strangers, which expire.
type Pairings interface {
	Prune(ctx context.Context) error
}

// Elevations ends elevated mode in a conversation.
type Elevations interface {
	End(ctx context.Context, conversation message.ConversationKey, by, why string) (bool, error)
}

// NewKeeper returns a Keeper. Its methods may be called before Run.
func NewKeeper(c Config) *Keeper { return &Keeper{Config: c, deleted: make(chan struct{}, 1)} }

// In returns the sessions of a scope, and reports whether a delegated turn runs there.
func (k *Keeper) In(ctx context.Context, scope string) ([]turnlog.Session, bool, error) {
	list, err := k.Store.SessionsIn(ctx, scope)
	return list, k.Turns.Delegated(scope), err
}

// RestoreQuota tells the quota the holders of all stored sessions.
func (k *Keeper) RestoreQuota(ctx context.Context) error {
	list, err := k.Store.Holders(ctx)
	for _, h := range list {
		k.Quota.Restore(h.Session.Parse().Workspace(), h.Sender)
	}
	return err
}
