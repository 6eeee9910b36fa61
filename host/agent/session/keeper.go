package session

import (
	"context"
	"log/slog"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Keeper looks after the sessions of a running host: it deletes those that people name and those that are past their time, and removes what
// they leave behind.
//
// A session is deleted in the queue of its place, where no turn runs meanwhile: first in the store, in one transaction that also notes what
// the store cannot remove, then on the engine and among the files. What a crash, or an engine that is away, leaves of the second part is
// removed at the next start, or when the engine is back.
type Keeper struct {
	Config
	deleted chan struct{} // has room for one; Run then looks for the files of deleted sessions
}

// Config is what a Keeper works with. No field may be nil.
type Config struct {
	Store      Store
	Turns      Turns
	Queue      Queue
	Sandboxes  Sandboxes
	Quota      Quota
	Media      Media
	Pairings   Pairings
	Elevations Elevations
	// Retention is that of the configuration in force.
	Retention func() config.Retention
	Log       *slog.Logger
}

// Store is what a Keeper needs of the store.
type Store interface {
	turnlog.Archive
	turnlog.Leftovers
	store.Pruning
	Holders(ctx context.Context) ([]turnlog.Holder, error)
	Sessions(ctx context.Context, limit int) ([]turnlog.Session, error)
}

// Turns are the turns at work, by place.
type Turns interface {
	Running(place string) bool
	// Delegated reports whether something that was delegated in a place runs.
	Delegated(place string) bool
	// Stop ends the turn that runs in a place, with all that was delegated there.
	Stop(place string) bool
	// Forget drops what is remembered of a session.
	Forget(key string)
}

// Queue runs the work of each place in order; *agent.Queue implements it.
type Queue interface {
	// Alone calls do when nothing else runs in a place.
	Alone(place string, do func())
}

// Sandboxes remove what commands of sessions have outside of the workspace.
type Sandboxes interface {
	// Forget removes what sessions that were deleted have on the host and on the engine, by their homes (message.SessionKey.Home).
	Forget(ctx context.Context, homes map[string]bool) error
}

// Quota counts what sessions hold, by their homes.
type Quota interface {
	Restore(home string, sender message.SenderKey)
}

// Media are the files that people sent.
type Media interface {
	// Drop removes a file that nobody needs, and reports whether it is gone.
	Drop(ctx context.Context, digest string) (gone bool, err error)
}

// Pairings are requests of strangers, which end.
type Pairings interface {
	Prune(ctx context.Context) error
}

// Elevations end elevated mode in a conversation.
type Elevations interface {
	End(ctx context.Context, conversation message.ConversationKey, by, why string) (bool, error)
}

// NewKeeper returns a Keeper. Run does what is due; the other methods may be called before it.
func NewKeeper(c Config) *Keeper { return &Keeper{Config: c, deleted: make(chan struct{}, 1)} }

// In returns the sessions of a place, and reports whether something that was delegated there runs.
func (k *Keeper) In(ctx context.Context, place string) ([]turnlog.Session, bool, error) {
	list, err := k.Store.PlaceSessions(ctx, place)
	return list, k.Turns.Delegated(place), err
}

// RestoreQuota has the quota know the holders of the sessions that are in the store.
func (k *Keeper) RestoreQuota(ctx context.Context) error {
	list, err := k.Store.Holders(ctx)
	for _, h := range list {
		k.Quota.Restore(message.ParseSession(h.Session).Home(), h.Sender)
	}
	return err
}
