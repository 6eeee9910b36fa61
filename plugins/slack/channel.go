package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"github.com/flynnhost/flynn/sdk/backoff"
	"github.com/flynnhost/flynn/sdk/cache"
	"github.com/flynnhost/flynn/sdk/channel"
)

// plugin is the channel.
type plugin struct {
	settings settings
	config   channel.Config
	log      *slog.Logger
	web      *web
	people   *people
	places   *places
	unclear  *cache.Map[string, time.Time] // when a key with an unknown or pending outcome was last tried

	mu     sync.Mutex
	self   self
	silent bool // the workspace shows no status of ours
}

// self is Flynn's account.
type self struct{ user, bot, team string }

const (
	maxText       = 4000 // characters; what Slack recommends for one message; it truncates above 40,000
	maxAttachment = 100 << 20
)

// Describe implements channel.Channel.
func (p *plugin) Describe() channel.Description {
	return channel.Description{Name: "slack", Version: "0.1.0", ConfigSchema: settingsSchema, Capabilities: channel.Capabilities{
		MaxTextRunes: maxText, MaxAttachmentBytes: maxAttachment, MinEditInterval: 1500 * time.Millisecond,
		SendsApart: true, Threads: true, Markdown: true, Buttons: true, Senders: channel.SendersProved,
	}}
}

// Configure implements channel.Channel.
func (p *plugin) Configure(_ context.Context, c channel.Config) error {
	s, err := newSettings(c)
	if err != nil {
		return err
	}
	p.settings, p.config, p.log = s, c, c.Log
	p.web, p.places, p.unclear = newWeb(s), newPlaces(), newUnclear()
	p.people = newPeople(p.web.client)
	if err := p.places.load(c); err != nil { // before the first send, which adds to it
		p.log.Warn("cannot read the list of conversations; messages sent meanwhile are missed", "error", err)
	}
	return nil
}

// Run implements channel.Channel: it connects again and again until ctx ends.
func (p *plugin) Run(ctx context.Context, in channel.Inbox) error {
	q := make(queue, maxQueue)
	var work sync.WaitGroup
	defer work.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work.Go(func() { p.work(ctx, in, q) })
	missed := true
	again := backoff.Backoff{First: 250 * time.Millisecond, Most: 2 * time.Minute}
	for ctx.Err() == nil {
		l, err := p.connect(ctx, in, q, &work)
		began := time.Now()
		if err == nil {
			if missed {
				q.put(ctx, delivery{missed: true})
			}
			// A connection that Slack asks to replace keeps receiving while the next one is opened.
			if missed, err = l.wait(ctx); err == nil {
				if time.Since(began) > time.Second {
					again.Reset()
					continue
				}
				err = errors.New("slack asked to replace a connection at once")
			}
		}
		if ctx.Err() != nil {
			break
		}
		missed = true
		wait := p.report(in, err, again.Failed(time.Since(began)), again.Failures() > 1)
		_ = backoff.Sleep(ctx, wait)
	}
	return nil
}

// connect opens one connection and lets work read it.
func (p *plugin) connect(ctx context.Context, in channel.Inbox, q queue, work *sync.WaitGroup) (*link, error) {
	me, title, err := p.whoAmI(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.self = me
	p.mu.Unlock()
	l, err := p.web.dial(ctx)
	if err != nil {
		return nil, err
	}
	in.Status(channel.StateReady, title)
	work.Go(func() { l.run(ctx, q) })
	return l, nil
}

// whoAmI requests Flynn's account. It does so for each connection, which also detects a revoked token.
func (p *plugin) whoAmI(ctx context.Context) (self, string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	a, err := p.web.client.AuthTestContext(ctx)
	if err != nil {
		return self{}, "", clean("ask for the account of Flynn", err)
	}
	if a.UserID == "" || a.TeamID == "" {
		return self{}, "", errors.New("slack does not name the account of Flynn")
	}
	return self{a.UserID, a.BotID, a.TeamID}, a.User + " in " + a.Team, nil
}

func (p *plugin) me() self {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.self
}

// report shows why there is no connection and returns how long to wait.
func (p *plugin) report(in channel.Inbox, err error, wait time.Duration, degraded bool) time.Duration {
	p.log.Warn("connection ended", "error", err)
	state := channel.StateConnecting
	if degraded {
		state = channel.StateDegraded
	}
	if limited, ok := errors.AsType[*slack.RateLimitedError](err); ok {
		state, wait = channel.StateRateLimited, max(wait, limited.RetryAfter)
	}
	if refused, ok := errors.AsType[slack.SlackErrorResponse](err); ok && authErrors[refused.Err] {
		state, wait = channel.StateAuthRequired, max(wait, time.Minute)
	}
	in.Status(state, err.Error())
	return wait
}
