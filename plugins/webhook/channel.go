package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// plugin is the channel.
type plugin struct {
	settings settings
	config   channel.Config
	client   *http.Client
	now      func() time.Time
}

// Describe implements channel.Channel.
func (p *plugin) Describe() channel.Description {
	return channel.Description{
		Name: "webhook", Version: "0.1.0", ConfigSchema: settingsSchema,
		Capabilities: channel.Capabilities{MaxTextRunes: 65_536, Idempotent: true, Shared: true, Markdown: true, Senders: channel.SendersProved},
	}
}

// Configure implements channel.Channel.
func (p *plugin) Configure(_ context.Context, c channel.Config) error {
	s, err := newSettings(c)
	if err != nil {
		return err
	}
	p.settings, p.config, p.now, p.client = s, c, time.Now, webapi.NewClient()
	return nil
}

// Run implements channel.Channel.
func (p *plugin) Run(ctx context.Context, in channel.Inbox) error {
	defer p.client.CloseIdleConnections()
	err := p.config.Host.Webhook(ctx, p.settings.Path, func(url string) {
		in.Status(channel.StateReady, "messages are posted to "+url)
	}, &receiver{secret: p.settings.secret, in: in, now: p.now})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
