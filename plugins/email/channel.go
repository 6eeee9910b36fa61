package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/backoff"
	"github.com/flynnhost/flynn/sdk/channel"
)

// plugin is the channel.
type plugin struct {
	channel.HostMedia // the files to send: a mail is written when it is sent

	settings settings
	threads  threads
	log      *slog.Logger
	board    board
	cursor   cursor

	noting sync.Mutex // held while the record of a conversation is read, changed and written
}

var (
	_ channel.Reconciler = (*plugin)(nil)
	_ channel.Fetcher    = (*plugin)(nil)
	_ channel.Uploader   = (*plugin)(nil)
)

// Describe implements channel.Channel.
func (p *plugin) Describe() channel.Description {
	return channel.Description{
		Name: "email", Version: "0.1.0", ConfigSchema: settingsSchema,
		Capabilities: channel.Capabilities{
			MaxTextRunes: 60_000, MaxAttachmentBytes: maxAttachment, SendsApart: true, Markdown: true, Senders: channel.SendersProved,
		},
	}
}

// Configure implements channel.Channel.
func (p *plugin) Configure(_ context.Context, c channel.Config) error {
	s, err := newSettings(c)
	if err != nil {
		return err
	}
	p.HostMedia = channel.HostMedia{Host: c.Host, Most: maxAttachment}
	p.settings, p.threads, p.log = s, threads{c.Host}, c.Log
	p.cursor.moved = make(chan struct{}, 1)
	return nil
}

// Run implements channel.Channel: it follows the mailbox again and again until ctx ends.
func (p *plugin) Run(ctx context.Context, in channel.Inbox) error {
	p.board.open(in, p.settings.Address)
	defer p.board.open(nil, "")
	var saving sync.WaitGroup
	defer saving.Wait()
	saving.Go(func() { p.save(ctx) })
	again := backoff.Backoff{First: 500 * time.Millisecond, Most: 2 * time.Minute}
	failures := 0 // of the login, in a row
	again.Loop(ctx, func(ctx context.Context) error { return p.once(ctx, in) }, func(err error, wait time.Duration) time.Duration {
		p.board.in(err)
		p.log.Warn("following the mailbox failed", "error", clean(err.Error(), 500))
		if failures++; !refused(err) {
			failures = 0
		}
		if failures > 2 { // servers lock accounts for passwords that are tried in haste
			wait = backoff.Delay(1, 5*time.Minute, 5*time.Minute)
		}
		return wait
	})
	return nil
}

// once checks that mail can go out, so that a wrong password shows before the first answer, and follows until something fails.
func (p *plugin) once(ctx context.Context, in channel.Inbox) error {
	p.board.out(p.tryOut(ctx))
	return p.follow(ctx, in)
}

func (p *plugin) tryOut(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	client, end, err := p.settings.smtp(ctx)
	if err != nil {
		return err
	}
	defer end()
	_ = client.Quit() // a courtesy
	return nil
}

func refused(err error) bool {
	_, ok := errors.AsType[*authError](err)
	return ok
}

// board shows the states of both directions as one.
type board struct {
	mu        sync.Mutex
	inbox     channel.Inbox
	ready     string // text of the state ready
	known     bool   // the way in was tried
	way, back error  // of the way in and the way out; nil when it works
}

// open begins to show states, or ends that.
func (b *board) open(in channel.Inbox, ready string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inbox, b.ready, b.known, b.way, b.back = in, ready, false, nil, nil
	if in != nil {
		in.Status(channel.StateConnecting, ready)
	}
}

func (b *board) in(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.way, b.known = err, true
	b.show()
}

func (b *board) out(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.back = err
	b.show()
}

// noWayOut reports whether the last try to send failed before it began.
func (b *board) noWayOut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.back != nil
}

func (b *board) show() {
	err := errors.Join(b.way, b.back)
	switch {
	case b.inbox == nil || !b.known:
	case err == nil:
		b.inbox.Status(channel.StateReady, b.ready)
	case refused(err):
		b.inbox.Status(channel.StateAuthRequired, oneLine(err.Error(), 300))
	default:
		b.inbox.Status(channel.StateDegraded, oneLine(err.Error(), 300))
	}
}
