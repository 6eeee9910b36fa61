package main

import (
	"context"

	"github.com/flynnhost/flynn/sdk/channel"
)

// plugin is the channel; the work is done by its line.
type plugin struct{ line }

// line is one of the two kinds of connections to WhatsApp.
type line interface {
	Run(ctx context.Context, in channel.Inbox) error
	Send(ctx context.Context, s channel.Send) (channel.Sent, error)
	Reconcile(ctx context.Context, r channel.Reconcile) (channel.Sent, error)
	React(ctx context.Context, r channel.Reaction) error
	Typing(ctx context.Context, t channel.Typing) error
	Fetch(ctx context.Context, handle string) (channel.Media, error)
	Upload(ctx context.Context, m channel.Media) (string, error)
}

const (
	maxText       = 4096 // characters of one message
	maxCaption    = 1024 // characters below a picture, and above buttons
	maxAttachment = 64 << 20
)

// Describe implements channel.Channel. Both lines have the same abilities: the host asks before it knows which it will be.
func (p *plugin) Describe() channel.Description {
	return channel.Description{Name: "whatsapp", Version: "0.1.0", ConfigSchema: settingsSchema, Capabilities: channel.Capabilities{
		MaxTextRunes: maxText, MaxAttachmentBytes: maxAttachment, Exclusive: true, SendsApart: true, Markdown: true, Buttons: true,
		Senders: channel.SendersProved,
	}}
}

// Configure implements channel.Channel.
func (p *plugin) Configure(_ context.Context, c channel.Config) error {
	s, err := newSettings(c)
	if err != nil {
		return err
	}
	if s.Mode == "linked" {
		p.line = newLinked(s, c)
		return nil
	}
	p.line = newCloud(s, c)
	return nil
}
