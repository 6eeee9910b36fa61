package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/backoff"
	"github.com/flynnhost/flynn/sdk/cache"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/hostapi"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// plugin is the channel.
type plugin struct {
	settings settings
	client   *client
	host     *hostapi.Host
	log      *slog.Logger
	members  cache.Map[string, int] // how many people are in a room

	mu     sync.Mutex
	warned map[string]bool // encrypted rooms that were logged
}

var (
	_ channel.Editor   = (*plugin)(nil)
	_ channel.Deleter  = (*plugin)(nil)
	_ channel.Reacter  = (*plugin)(nil)
	_ channel.Typer    = (*plugin)(nil)
	_ channel.Resolver = (*plugin)(nil)
	_ channel.Fetcher  = (*plugin)(nil)
	_ channel.Uploader = (*plugin)(nil)
)

// Describe implements channel.Channel.
func (p *plugin) Describe() channel.Description {
	return channel.Description{
		Name: "matrix", Version: "0.1.0", ConfigSchema: settingsSchema,
		// An event has at most 64 KiB as JSON, and holds the text twice.
		Capabilities: channel.Capabilities{
			MaxTextRunes: 20_000, MaxAttachmentBytes: maxMedia, MinEditInterval: time.Second, Idempotent: true, SendsApart: true, Threads: true, Markdown: true,
			Senders: channel.SendersProved,
		},
	}
}

// Configure implements channel.Channel.
func (p *plugin) Configure(_ context.Context, c channel.Config) error {
	s, err := newSettings(c)
	if err != nil {
		return err
	}
	p.settings, p.host, p.log, p.warned = s, c.Host, c.Log, map[string]bool{}
	p.client = &client{base: s.Homeserver, token: s.token, http: webapi.NewClient()}
	p.members.Most = maxRooms
	return nil
}

// Run implements channel.Channel: it follows the homeserver again and again until ctx ends.
func (p *plugin) Run(ctx context.Context, in channel.Inbox) error {
	defer p.client.http.CloseIdleConnections()
	in.Status(channel.StateConnecting, p.settings.Homeserver)
	again := backoff.Backoff{First: 500 * time.Millisecond, Most: 2 * time.Minute}
	again.Loop(ctx, func(ctx context.Context) error { return p.once(ctx, in) }, func(err error, again time.Duration) time.Duration {
		state, pause := channel.StateDegraded, wait(err)
		switch {
		case loggedOut(err):
			state = channel.StateAuthRequired
		case pause > 0:
			state = channel.StateRateLimited
		}
		in.Status(state, err.Error())
		p.log.Warn("following the homeserver failed", "error", err)
		return max(pause, again)
	})
	return nil
}

// once makes sure that the token is that of the account and follows until something fails.
func (p *plugin) once(ctx context.Context, in channel.Inbox) error {
	var who struct {
		User string `json:"user_id"`
	}
	if err := p.client.call(ctx, http.MethodGet, v3+"/account/whoami", nil, nil, &who); err != nil {
		return err
	}
	if who.User != p.settings.UserID {
		return fmt.Errorf("the token is that of %.200s, not of %s: correct user_id", who.User, p.settings.UserID)
	}
	return p.follow(ctx, in)
}

// encrypted logs once for each room that Flynn cannot read it.
func (p *plugin) encrypted(room string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.warned[room] || len(p.warned) >= maxRooms {
		return
	}
	p.warned[room] = true
	p.log.Warn("a room is encrypted and cannot be read", "room", room)
}

// show shows the state of the connection.
func (p *plugin) show(in channel.Inbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.warned) > 0 {
		in.Status(channel.StateDegraded, fmt.Sprintf("%d rooms are encrypted and cannot be read; the log names them", len(p.warned)))
		return
	}
	in.Status(channel.StateReady, p.settings.UserID+" on "+p.settings.Homeserver)
}
