package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/backoff"
	"github.com/flynnhost/flynn/sdk/channel"
)

// plugin is the channel.
type plugin struct {
	channel.HostMedia // the files to send: Discord takes them only along with a message

	settings settings
	log      *slog.Logger
	client   *client
	gateway  *gateway
	position *position
	world    *world
	sends    sends
	waiting  waiting
	pause    func(failures int) time.Duration // before the next connection

	// Only the goroutine that reads the gateway uses these.
	since      string          // the latest message known when the session began
	absent     map[string]bool // servers that have yet to introduce themselves; nil before a session has begun: any
	registered bool
	shown      bool // that the connection works

	running context.Context // of Run; its tasks outlive single connections
	tasks   sync.WaitGroup  // of Run
}

var (
	_ channel.Editor     = (*plugin)(nil)
	_ channel.Deleter    = (*plugin)(nil)
	_ channel.Reacter    = (*plugin)(nil)
	_ channel.Typer      = (*plugin)(nil)
	_ channel.Fetcher    = (*plugin)(nil)
	_ channel.Uploader   = (*plugin)(nil)
	_ channel.Reconciler = (*plugin)(nil)
)

const (
	maxText = 2000
	maxFile = 10 << 20 // bytes; servers that have been boosted take more
)

// Describe implements channel.Channel. Discord recognises a repeated nonce for some minutes only, so sends are not idempotent across
// restarts.
func (p *plugin) Describe() channel.Description {
	return channel.Description{Name: "discord", Version: "0.1.0", ConfigSchema: settingsSchema, Capabilities: channel.Capabilities{
		MaxTextRunes: maxText, MaxAttachmentBytes: maxFile, MinEditInterval: time.Second,
		Exclusive: true, SendsApart: true, Threads: true, Markdown: true, Buttons: true, Senders: channel.SendersProved,
	}}
}

// Configure implements channel.Channel.
func (p *plugin) Configure(_ context.Context, c channel.Config) error {
	s, err := newSettings(c)
	if err != nil {
		return err
	}
	at, err := loadPosition(c)
	if err != nil {
		return err
	}
	p.settings, p.log, p.position = s, c.Log, at
	p.client, p.world, p.sends = newClient(s), newWorld(), newSends()
	p.HostMedia = channel.HostMedia{Host: c.Host, Most: maxFile}
	if p.pause == nil {
		p.pause = pause
	}
	return os.RemoveAll(filepath.Join(c.StateDir, "uploads")) // where an older version stored the files to send
}

// pause returns the delay before the next connection. Discord limits how often a bot may identify.
func pause(failures int) time.Duration {
	return backoff.Delay(failures+1, time.Second, 2*time.Minute)
}

// Run implements channel.Channel: one connection after the other until ctx ends.
func (p *plugin) Run(ctx context.Context, in channel.Inbox) error {
	defer p.client.http.CloseIdleConnections()
	defer p.tasks.Wait()
	p.running = ctx
	p.since, _ = p.position.newest()
	p.tasks.Go(func() {
		p.position.Run(ctx, func(err error) {
			p.log.Error("cannot keep the position: messages may come twice after a restart", "error", err)
		})
	})
	p.gateway = &gateway{client: p.client, intents: p.settings.intents(), session: p.position.resume()}
	p.world.ready(p.gateway.session.Self, p.gateway.session.App)
	p.gateway.dispatch = func(ctx context.Context, kind string, seq int64, data json.RawMessage) error {
		return p.dispatch(ctx, in, kind, seq, data)
	}
	in.Status(channel.StateConnecting, p.settings.API)
	for failures := 0; ctx.Err() == nil; {
		p.shown = false
		up, err := p.gateway.connected(ctx)
		if ctx.Err() != nil {
			break
		}
		if failures++; up {
			failures = 0
		}
		p.report(in, err, failures)
		_ = backoff.Sleep(ctx, p.after(err, failures))
	}
	return nil
}

// after returns the wait before the next try. After an error that only a person can resolve it is long, since Discord counts every try.
func (p *plugin) after(err error, failures int) time.Duration {
	if _, fatal := errors.AsType[*fatalError](err); fatal || unauthorized(err) {
		return 5 * time.Minute
	}
	if limited, ok := errors.AsType[*limitedError](err); ok {
		return limited.after
	}
	return p.pause(failures)
}

// report shows the state of the connection. A connection that ends and is resumed at once is not shown.
func (p *plugin) report(in channel.Inbox, err error, failures int) {
	p.log.Info("connection ended", "error", err)
	_, fatal := errors.AsType[*fatalError](err)
	_, limited := errors.AsType[*limitedError](err)
	switch {
	case limited:
		in.Status(channel.StateRateLimited, err.Error())
	case fatal || unauthorized(err):
		text := err.Error()
		if !fatal {
			text = hints[4004]
		}
		in.Status(channel.StateAuthRequired, text)
	case failures > 1:
		in.Status(channel.StateDegraded, err.Error())
	}
}

// unauthorized reports whether Discord does not accept the token.
func unauthorized(err error) bool {
	refused, ok := errors.AsType[*refusedError](err)
	return ok && refused.status == http.StatusUnauthorized
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
