// Package plugged connects channel plugins to the inbox and the outbox.
//
// Start with Channels.Serve. Package plugin checks and bounds an event when it makes a message of it; this package decides which events are
// messages (acts.go), and looks up the earlier message that an edit or a reaction is about. It sends nothing: the client of a channel is
// itself the channel.Sender of its instance.
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
	"github.com/flynnhost/flynn/host/plugin/kind"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
)

// Inbox accepts the messages of plugins; *channel.Inbox implements it.
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

// Proofs records what a running plugin proves about its senders, until end is called; *access.Proofs implements it.
type Proofs interface {
	Serving(instance string, proof message.SenderProof) (end func())
}

// Store finds earlier messages.
type Store interface {
	FindSent(ctx context.Context, channel, conversation, platformID string) (mailbox.OutboxRow, error)
	FindInbox(ctx context.Context, channel, event string) (mailbox.InboxRow, error)
}

// Leases decides which of several hosts runs a channel; *cluster.Member implements it.
type Leases interface {
	// Shared reports whether there are several hosts.
	Shared() bool
	// Lease returns this host's lease of a channel, which it may or may not have now.
	Lease(channel string) kind.Lease
}

// Config configures Channels.
type Config struct {
	Inbox  Inbox
	Outbox Outbox
	Files  Files
	Proofs Proofs
	Store  Store
	// Leases is nil for a host that can only be the only one: its channels run always.
	Leases Leases
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
	i := plugin.Instance{
		Name: name, Plugin: t.Plugin, Kind: channelkind.Name, Settings: t.Settings, Secrets: instances.Reveal(t.Secrets), Critical: t.Critical,
	}
	if c.cfg.Leases != nil && c.cfg.Leases.Shared() {
		i.Lease = c.cfg.Leases.Lease(name)
	}
	return i, c, nil
}

// Ended implements instances.Kind.
func (*Channels) Ended(string) {}

// receiveWindow bounds the events of a channel that wait for their commit.
const receiveWindow = 64

// arrival is an event on its way into the inbox; done acknowledges it.
type arrival struct {
	message message.Message
	done    func(error)
}

// Serve implements plugin.Handler. Events of one conversation are committed in order, those of different ones concurrently.
func (c *Channels) Serve(ctx context.Context, conn *kind.Conn) error {
	name, client := conn.Instance, channelkind.NewClient(conn)
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
	return client.Receive(ctx, receiveWindow, func(e channelkind.Event, done func(error)) {
		m, ok := wanted(e, c.cfg.Access())
		if !ok {
			done(nil)
			return
		}
		arrivals.Push(string(m.ConversationKey()), arrival{m, done})
	})
}

// take puts a message into the inbox, however long the store fails. An error would end the plugin, lose the messages that it holds, and
// perhaps put it into quarantine, though nothing is wrong with it.
func (c *Channels) take(ctx context.Context, m message.Message) error {
	c.lookUp(ctx, &m)
	return c.cfg.Inbox.Take(ctx, m)
}
