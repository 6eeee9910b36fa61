package host

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/access"
	"github.com/flynnhost/flynn/host/admin/lint"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/keyed"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin"
)

// receiveWindow is how many events of a channel may wait for their commit.
const receiveWindow = 64

// adapter ties a channel plugin to the inbox and the outbox while its process lives.
type adapter struct {
	host *Host
	name string
}

// arrival is an event on its way into the inbox; done acknowledges it.
type arrival struct {
	message message.Message
	done    func(error)
}

// Serve implements plugin.Handler. Events of one conversation are committed in their order, those of different ones
// side by side.
func (a *adapter) Serve(ctx context.Context, c *plugin.Client) error {
	defer a.host.outbox.Attach(a.name, newPluginSender(c, a.host.log))()
	defer a.host.fetchers.attach(a.name, c)()
	defer a.host.proofs.Serving(a.name, c.Capabilities().Senders)()
	ctx, cancel := context.WithCancel(ctx)
	arrivals := keyed.New(receiveWindow, func(ctx context.Context, _ string, waiting []arrival) []arrival {
		waiting[0].done(a.accept(ctx, waiting[0].message))
		return waiting[1:]
	})
	var accepting sync.WaitGroup
	accepting.Go(func() { arrivals.Run(ctx) })
	defer accepting.Wait()
	defer cancel()
	return c.Receive(ctx, receiveWindow, func(e plugin.Event, done func(error)) {
		if !a.answers(&e) {
			done(nil)
			return
		}
		e.Message.Channel = a.name
		arrivals.Push(e.Message.ConversationKey(), arrival{e.Message, done})
	})
}

// answers reports whether an event is one that somebody answers. The press of a button, and a command of the platform's own, is
// its sender's saying what the button stands for; nobody else can be meant by it but Flynn.
func (a *adapter) answers(e *plugin.Event) bool {
	switch e.Kind {
	case plugin.EventMessage:
		return true
	case plugin.EventButton, plugin.EventCommand:
		e.Message.Addressed = true
		return true
	case plugin.EventEdit, plugin.EventDelete, plugin.EventReaction:
		return act(e, a.host.current.Load().config.Access)
	}
	return false
}

// accept takes a message, however long the store has trouble. An error would end the plugin, with the messages that it holds, and
// as often as not put it into quarantine, though nothing is wrong with it.
func (a *adapter) accept(ctx context.Context, m message.Message) error {
	a.host.recall(ctx, &m)
	err := a.host.inbox.Take(ctx, m)
	if malformed := (*channel.MalformedError)(nil); errors.As(err, &malformed) {
		a.host.log.Warn("event was refused", "channel", a.name, "error", err)
		return &plugin.RejectedError{Why: malformed.Unwrap()} // it will not get better by being sent again
	}
	return err
}

// pluginSender is a channel plugin as the outbox sees it.
type pluginSender struct {
	client *plugin.Client
	log    *slog.Logger
}

// knowingSender is one that can look up a send.
type knowingSender struct{ pluginSender }

func newPluginSender(c *plugin.Client, log *slog.Logger) channel.Sender {
	if c.Capabilities().Reconcile {
		return &knowingSender{pluginSender{c, log}}
	}
	return &pluginSender{c, log}
}

// Recognises implements channel.Sender.
func (s *pluginSender) Recognises() bool { return s.client.Capabilities().Idempotent }

// Send implements channel.Sender.
func (s *pluginSender) Send(ctx context.Context, r message.Reply) (channel.Result, error) {
	return s.result(s.client.Send(ctx, r))
}

// Reconcile implements channel.Reconciler.
func (s *knowingSender) Reconcile(ctx context.Context, r message.Reply) (channel.Result, error) {
	return s.result(s.client.Reconcile(ctx, r))
}

// Abilities implements channel.Able.
func (s *pluginSender) Abilities() channel.Abilities {
	c := s.client.Capabilities()
	can := channel.Abilities{
		MaxText: c.MaxTextRunes, Edit: c.Edit, EditWindow: c.EditWindow, EditInterval: c.MinEditInterval, Delete: c.Delete, Typing: c.Typing,
	}
	if c.Upload {
		can.MaxAttachment = c.MaxAttachmentBytes
	}
	return can
}

// SendDraft implements channel.Drafter.
func (s *pluginSender) SendDraft(ctx context.Context, r message.Reply) (channel.Result, error) {
	return s.result(s.client.SendDraft(ctx, r))
}

// Edit implements channel.Drafter.
func (s *pluginSender) Edit(ctx context.Context, e channel.Edit) (channel.Edited, error) {
	applied, wait, err := s.client.Edit(ctx, plugin.Edit(e))
	return channel.Edited{
		Applied: applied, RetryAfter: wait, Stale: err == nil && !applied && wait == 0, Never: plugin.Permanent(err),
	}, err
}

// Delete implements channel.Drafter.
func (s *pluginSender) Delete(ctx context.Context, where message.Conversation, id string) error {
	return s.client.Delete(ctx, where, id)
}

// Typing implements channel.Typist.
func (s *pluginSender) Typing(ctx context.Context, where message.Conversation, on bool, ttl time.Duration) error {
	return s.client.Typing(ctx, where, on, ttl)
}

// Upload implements channel.Uploader.
func (s *pluginSender) Upload(ctx context.Context, a message.Attachment, body io.Reader) (string, error) {
	handle, err := s.client.Upload(ctx, a, body)
	if plugin.Permanent(err) {
		err = errors.Join(channel.ErrRefused, err)
	}
	return handle, err
}

// result takes over the outcome, which the client always knows; the error only explains it.
func (s *pluginSender) result(r plugin.SendResult, err error) (channel.Result, error) {
	if err != nil {
		s.log.Warn("delivery", "channel", s.client.Instance(), "outcome", r.Outcome, "error", err)
	}
	return channel.Result{Outcome: r.Outcome, PlatformIDs: r.PlatformIDs, RetryAfter: r.RetryAfter, Resume: r.Resume}, nil
}

// setChannels brings the running channels in line with a configuration.
func (h *Host) setChannels(old, next *config.Config) {
	h.keepHooks(next)
	for _, w := range access.Warnings(next) {
		h.log.Warn("a rule for senders", "key", w.Key, "line", w.Line, "problem", w.Problem, "hint", w.Hint)
	}
	for _, w := range lint.Networks(next) {
		h.log.Warn("a network of sandboxes", "key", w.Key, "line", w.Line, "problem", w.Problem, "hint", w.Hint)
	}
	var before map[string]config.Channel
	if old != nil {
		before = old.Channels
	}
	lineup[config.Channel]{
		host: h, enabled: func(c config.Channel) bool { return c.Enabled }, same: same,
		start: func(name string, c config.Channel) error {
			i := plugin.Instance{Name: name, Plugin: c.Plugin, Kind: plugin.Channel, Settings: c.Settings, Secrets: reveal(c.Secrets), Critical: c.Critical}
			return h.plugins.Add(i, &adapter{host: h, name: name})
		},
	}.set(before, next.Channels)
}

// reveal opens the secrets of an instance for its process, which alone gets them.
func reveal(secrets map[string]config.Secret) map[string]string {
	open := make(map[string]string, len(secrets))
	for key, s := range secrets {
		open[key] = s.Reveal()
	}
	return open
}

func same(a, b config.Channel) bool {
	return a.Plugin == b.Plugin && a.Enabled == b.Enabled && a.Critical == b.Critical && reflect.DeepEqual(a.Settings, b.Settings) && maps.Equal(a.Secrets, b.Secrets)
}

// local is the way to the doors of this machine. Who watches has seen the reply as an event when it was committed, and who
// comes later reads the history: a committed reply is a delivered one.
type local struct{}

// Recognises implements channel.Sender.
func (local) Recognises() bool { return true }

// Send implements channel.Sender.
func (local) Send(context.Context, message.Reply) (channel.Result, error) {
	return channel.Result{Outcome: message.Sent}, nil
}
