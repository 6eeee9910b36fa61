package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
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
		Capabilities: channel.Capabilities{MaxTextRunes: 65_536, Idempotent: true, Markdown: true, Senders: channel.SendersProved},
	}
}

// Configure implements channel.Channel.
func (p *plugin) Configure(_ context.Context, c channel.Config) error {
	s, err := newSettings(c)
	if err != nil {
		return err
	}
	p.settings, p.config, p.now = s, c, time.Now
	p.client = &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second},
		// A signed answer goes where the operator said, and nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
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
