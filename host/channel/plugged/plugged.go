// Package plugged ties channel plugins to the rest of package channel: what a plugin receives goes into the inbox, and its process is
// the way for the replies of the outbox.
//
// Start with Channels.Serve. An event was checked and bounded when package plugin made a message of it; this package decides which
// events are messages (acts.go), and looks up the earlier message that an edit or a reaction is about. It sends nothing: a *plugin.Client
// is itself the channel.Sender of its instance.
package plugged

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"sync"

	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/channel/attachments"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/keyed"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/instances"
)

// Inbox takes what plugins receive; *channel.Inbox implements it.
type Inbox interface {
	Take(ctx context.Context, m message.Message) error
}

// Outbox sends replies over a plugin until detach is called; *channel.Outbox implements it.
type Outbox interface {
	Attach(channel string, s channel.Sender) (detach func())
}

// Files fetches attachments from a plugin until detach is called; *attachments.Files implements it.
type Files interface {
	Attach(channel string, from attachments.Source) (detach func())
}

// Proofs goes by what a running plugin proves about its senders until end is called; *access.Proofs implements it.
type Proofs interface {
	Serving(instance string, proof message.SenderProof) (end func())
}

// Store knows the messages that were sent and received.
type Store interface {
	FindSent(ctx context.Context, channel, conversation, platformID string) (mailbox.OutboxRow, error)
	FindInbox(ctx context.Context, channel, event string) (mailbox.InboxRow, error)
}

// Config is what Channels need.
type Config struct {
	Inbox  Inbox
	Outbox Outbox
	Files  Files
	Proofs Proofs
	Store  Store
	// Access returns the [access] table in force.
	Access func() config.Access
	Log    *slog.Logger
}

// Channels are the instances of channel plugins.
type Channels struct{ cfg Config }

var _ instances.Kind[config.Channel] = (*Channels)(nil)

// New returns Channels.
func New(cfg Config) *Channels { return &Channels{cfg} }

// Enabled implements instances.Kind.
func (*Channels) Enabled(c config.Channel) bool { return c.Enabled }

// Same implements instances.Kind.
func (*Channels) Same(a, b config.Channel) bool {
	return a.Plugin == b.Plugin && a.Enabled == b.Enabled && a.Critical == b.Critical && reflect.DeepEqual(a.Settings, b.Settings) && maps.Equal(a.Secrets, b.Secrets)
}

// Instance implements instances.Kind.
func (c *Channels) Instance(name string, t config.Channel) (plugin.Instance, plugin.Handler, error) {
	return plugin.Instance{
		Name: name, Plugin: t.Plugin, Kind: plugin.Channel, Settings: t.Settings, Secrets: instances.Reveal(t.Secrets), Critical: t.Critical,
	}, c, nil
}

// Ended implements instances.Kind.
func (*Channels) Ended(string) {}

// receiveWindow is how many events of a channel may wait for their commit.
const receiveWindow = 64

// arrival is an event on its way into the inbox; done acknowledges it.
type arrival struct {
	message message.Message
	done    func(error)
}

// Serve implements plugin.Handler. Events of one conversation are committed in their order, those of different ones
// side by side.
func (c *Channels) Serve(ctx context.Context, client *plugin.Client) error {
	name := client.Instance()
	defer c.cfg.Outbox.Attach(name, client)()
	defer c.cfg.Files.Attach(name, client)()
	defer c.cfg.Proofs.Serving(name, client.Capabilities().Senders)()
	ctx, cancel := context.WithCancel(ctx)
	arrivals := keyed.New(receiveWindow, func(ctx context.Context, _ string, waiting []arrival) []arrival {
		waiting[0].done(c.take(ctx, waiting[0].message))
		return waiting[1:]
	})
	var taking sync.WaitGroup
	taking.Go(func() { arrivals.Run(ctx) })
	defer taking.Wait()
	defer cancel()
	return client.Receive(ctx, receiveWindow, func(e plugin.Event, done func(error)) {
		m, ok := wanted(e, c.cfg.Access())
		if !ok {
			done(nil)
			return
		}
		arrivals.Push(m.ConversationKey(), arrival{m, done})
	})
}

// take puts a message into the inbox, however long the store has trouble. An error would end the plugin, with the messages that it
// holds, and as often as not put it into quarantine, though nothing is wrong with it.
func (c *Channels) take(ctx context.Context, m message.Message) error {
	c.lookUp(ctx, &m)
	return c.cfg.Inbox.Take(ctx, m)
}
