package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-telegram/bot"

	"github.com/flynnhost/flynn/sdk/backoff"
	"github.com/flynnhost/flynn/sdk/cache"
	"github.com/flynnhost/flynn/sdk/channel"
)

// plugin is the channel.
type plugin struct {
	channel.HostMedia // the files to send: Telegram takes them only along with a message

	settings settings
	log      *slog.Logger
	api      *api
	moves    *moves
	pauses   cache.Map[int64, time.Time] // until when Telegram takes no messages in a chat
	edits    cache.Map[int64, time.Time] // when a group takes its next edit that is not the last
	health   health

	account atomic.Pointer[self] // nil until Telegram has answered getMe
	confirm int64                // offset of the next poll; used by Run only
	answers sync.WaitGroup       // to presses of buttons; used by Run only
}

var _ interface {
	channel.Channel
	channel.Editor
	channel.Deleter
	channel.Reacter
	channel.Typer
	channel.Resolver
	channel.Fetcher
	channel.Uploader
} = (*plugin)(nil)

const (
	maxFile  = 50 << 20 // bytes that Telegram takes of a bot
	maxPhoto = 10 << 20 // bytes of a photo; a larger picture is sent as a file
	maxChats = 10_000   // whose pauses are remembered
)

// Describe implements channel.Channel.
func (p *plugin) Describe() channel.Description {
	return channel.Description{Name: "telegram", Version: "0.1.0", ConfigSchema: settingsSchema, Capabilities: channel.Capabilities{
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
	if c.StateDir == "" {
		return errors.New("no folder to keep things in: plugin.toml asks for it")
	}
	p.settings, p.log, p.pauses.Most, p.edits.Most = s, c.Log, maxChats, maxChats
	p.HostMedia = channel.HostMedia{Host: c.Host, Most: maxFile}
	if p.moves, err = openMoves(c); err != nil {
		return err
	}
	if p.api, err = newAPI(s); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(c.StateDir, "uploads")) // where an older version stored the files to send
}

// self returns the bot's account; of id 0 as long as it is not known.
func (p *plugin) self() self {
	if s := p.account.Load(); s != nil {
		return *s
	}
	return self{}
}

// Run implements channel.Channel: it connects again and again until ctx ends.
func (p *plugin) Run(ctx context.Context, in channel.Inbox) error {
	defer p.api.wire.client.CloseIdleConnections()
	defer p.answers.Wait()
	p.health.begin(in)
	again := backoff.Backoff{First: time.Second, Most: 2 * time.Minute}
	again.Loop(ctx, func(ctx context.Context) error { return p.connected(ctx, in) }, func(err error, wait time.Duration) time.Duration {
		wait = max(wait, retryAfter(err))
		p.log.Warn("connection ended", "error", p.api.words(err), "again_in", wait.Round(time.Millisecond))
		p.health.fails(p.trouble(err))
		return wait
	})
	return nil
}

// trouble returns the state for an error, and a text for the operator.
func (p *plugin) trouble(err error) (channel.State, string) {
	switch {
	case errors.Is(err, bot.ErrorUnauthorized), errors.Is(err, bot.ErrorNotFound):
		return channel.StateAuthRequired, "Telegram does not know the token; ask @BotFather for a new one"
	case errors.Is(err, bot.ErrorConflict):
		return channel.StateDegraded, "another program takes this bot's messages, by polling or by a webhook; a token is for one program"
	case retryAfter(err) > 0:
		return channel.StateRateLimited, fmt.Sprintf("Telegram asks to wait %s", retryAfter(err))
	}
	return channel.StateDegraded, p.api.words(err).Error()
}

// connected requests the bot's account and receives updates until an error.
func (p *plugin) connected(ctx context.Context, in channel.Inbox) error {
	if err := p.introduce(ctx); err != nil {
		return err
	}
	if p.settings.Mode == "webhook" {
		return p.listen(ctx, in)
	}
	return p.poll(ctx, in)
}

// introduce requests the bot's account.
func (p *plugin) introduce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	me, err := p.api.GetMe(ctx)
	if err != nil {
		return err
	}
	p.account.Store(&self{id: me.ID, username: me.Username, private: !me.CanReadAllGroupMessages})
	return nil
}

// health shows the operator the state of the connection.
type health struct {
	mu    sync.Mutex
	in    channel.Inbox
	state channel.State
	text  string
	ready string // the text for a working connection; empty while no updates arrive
}

func (h *health) begin(in channel.Inbox) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.in = in
	h.put(channel.StateConnecting, "")
}

// fails reports that no updates arrive, and why.
func (h *health) fails(s channel.State, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = ""
	h.put(s, text)
}

// put shows a state that is new; h.mu is held.
func (h *health) put(s channel.State, text string) {
	if h.in == nil || h.state == s && h.text == text {
		return
	}
	h.state, h.text = s, text
	h.in.Status(s, text)
}

// isReady reports that updates arrive.
func (h *health) isReady(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = text
	h.put(channel.StateReady, text)
}

// hampered reports a problem with sending while updates arrive.
func (h *health) hampered(s channel.State, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ready != "" {
		h.put(s, text)
	}
}

// works withdraws the report of hampered.
func (h *health) works() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ready != "" {
		h.put(channel.StateReady, h.ready)
	}
}
