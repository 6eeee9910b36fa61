package host

import (
	"context"

	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/channel/command"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store"
)

// inForce is the configuration in force, as the areas ask for it.
type inForce struct{ h *Host }

func (r inForce) now() (*config.Config, *route.Roles) {
	g := r.h.current.Load()
	return g.config, g.Roles
}

func (r inForce) config() *config.Config { return r.h.current.Load().config }
func (r inForce) access() config.Access  { return r.config().Access }
func (r inForce) pairRole() string       { return r.config().Access.PairRole }

// streams reports whether answers on a channel are shown while they are made.
func (r inForce) streams(channel string) bool { return r.config().Channels[channel].Stream }

// Admit implements channel.Admitter.
func (r inForce) Admit(m message.Message) channel.Admission { return r.h.current.Load().gate.Admit(m) }

// Refusal implements command.Rules.
func (r inForce) Refusal(m message.Message) string { return r.h.current.Load().gate.Refusal(m) }

// Role implements command.Rules.
func (r inForce) Role(channel, sender string) string {
	return r.h.current.Load().Roles.Of(channel, sender)
}

// Place implements command.Rules.
func (r inForce) Place(m message.Message) string { return r.h.current.Load().scope.Place(m) }

// Persons implements command.Rules.
func (r inForce) Persons(sender string) []string { return r.h.current.Load().scope.Persons(sender) }

// sessions are the sessions of the host as commands see them.
type sessions struct{ h *Host }

var _ command.Sessions = sessions{}

// Look implements command.Sessions.
func (s sessions) Look(ctx context.Context, place string, m message.Message) (command.Session, error) {
	return s.h.look(ctx, place, m)
}

// Compact implements command.Sessions.
func (s sessions) Compact(ctx context.Context, at store.Place, row store.InboxRow) (command.Compaction, error) {
	return s.h.compact(ctx, at, row)
}

// In implements command.Sessions.
func (s sessions) In(ctx context.Context, place string) ([]store.Session, bool, error) {
	return s.h.sessions.In(ctx, place)
}

// Deleted implements command.Sessions.
func (s sessions) Deleted(ctx context.Context, keys []string) { s.h.sessions.Deleted(ctx, keys) }

// workspaces are those of the sandboxes, which are made after the media store whose bytes they count.
type workspaces struct{ h *Host }

// Visit implements attachments.Workspaces.
func (w workspaces) Visit(session string) (machine.Machine, func(), error) {
	return w.h.fleet.Visit(session)
}

// MediaRoom implements attachments.Workspaces.
func (w workspaces) MediaRoom(sender string) (int64, error) {
	return w.h.fleet.Quota().MediaRoom(sender)
}
