package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/flynnhost/flynn/sdk/backoff"
	"github.com/flynnhost/flynn/sdk/tool"
)

// provider is one instance: one server, and the connection to it.
type provider struct {
	settings settings
	log      *slog.Logger
	dial     dialer
	timeouts timeouts
	calls    atomic.Int64  // made so far; their numbers are progress tokens
	tried    chan struct{} // closed when the first try to connect has ended, one way or the other
	trying   sync.Once     // closes it

	mu    sync.Mutex
	link  *link  // nil if there is no connection
	why   string // why there is none
	list  listing
	board tool.Board
}

var (
	_ tool.Provider = (*provider)(nil)
	_ tool.Runner   = (*provider)(nil)
)

// dialer makes the way to the server. end waits for the server's end after its connection was closed; it may be nil.
type dialer func(ctx context.Context) (t mcp.Transport, end func() error, err error)

// timeouts are the periods, which tests shorten.
type timeouts struct {
	connect  time.Duration // until a server has to have introduced itself
	list     time.Duration // for the server to list its tools
	settle   time.Duration // least time between two lists
	ping     time.Duration // interval between checks of a silent server
	wait     time.Duration // before the second try to connect
	longest  time.Duration // before any try
	progress time.Duration // least time between two progresses of one call that are passed on
}

func defaultTimeouts() timeouts {
	return timeouts{
		connect: 30 * time.Second, list: 30 * time.Second, settle: time.Second, ping: 30 * time.Second,
		wait: time.Second, longest: time.Minute, progress: 100 * time.Millisecond,
	}
}

// Describe implements tool.Provider.
func (p *provider) Describe() tool.Description {
	return tool.Description{Name: "mcp", Version: "0.1.0", ConfigSchema: settingsSchema}
}

// Configure implements tool.Provider. Whether the server can be reached is no matter of the settings.
func (p *provider) Configure(_ context.Context, c tool.Config) error {
	s, err := newSettings(c)
	if err != nil {
		return err
	}
	p.settings, p.log, p.why, p.tried = s, c.Log, "it has not been reached yet", make(chan struct{})
	if p.timeouts == (timeouts{}) {
		p.timeouts = defaultTimeouts()
	}
	if p.dial == nil {
		p.dial = s.dialer(c.Log)
	}
	return nil
}

// Run implements tool.Runner: it keeps a connection to the server, reconnecting as often as necessary.
func (p *provider) Run(ctx context.Context, b tool.Board) error {
	p.board = b
	again := backoff.Backoff{First: p.timeouts.wait, Most: p.timeouts.longest}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	again.Loop(ctx, p.once, func(err error, wait time.Duration) time.Duration {
		if stays, ok := errors.AsType[endless](err); ok {
			fail(stays)
		}
		p.lose(err)
		b.Status(tool.StateDegraded, fmt.Sprintf("%v; the next try is in %s", err, wait.Round(time.Second)))
		p.log.Warn("no connection to the server", "error", err.Error(), "again_in", wait)
		return wait
	})
	if stays, ok := errors.AsType[endless](context.Cause(ctx)); ok {
		return stays
	}
	return nil
}

// once connects and serves until the connection is gone. The error says why, and is never nil.
func (p *provider) once(ctx context.Context) (err error) {
	l, err := p.connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to the server: %w", err)
	}
	defer func() {
		if ended := l.close(); ended != nil {
			err = ended
		}
	}()
	list, err := p.read(ctx, l)
	if err != nil {
		return err
	}
	p.gain(l, list)
	return p.follow(ctx, l)
}

// follow reads the list again whenever the server announces a change.
func (p *provider) follow(ctx context.Context, l *link) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.gone:
			return l.failure()
		case <-l.changed:
		}
		list, err := p.read(ctx, l)
		if err != nil {
			return err
		}
		p.gain(l, list)
		select {
		case <-time.After(p.timeouts.settle):
		case <-ctx.Done():
		case <-l.gone:
		}
	}
}

// gain starts using a connection and its list.
func (p *provider) gain(l *link, list listing) {
	p.mu.Lock()
	same := p.list.equal(list)
	p.link, p.list, p.why = l, list, ""
	p.mu.Unlock()
	p.trying.Do(func() { close(p.tried) })
	p.board.Status(tool.StateReady, fmt.Sprintf("%s, %d tools", l.name, len(list.tools)))
	if !same {
		p.board.Changed()
	}
}

// lose stops using a connection. The list stays, because a server that returns usually has the same tools; until then each call returns the
// reason.
func (p *provider) lose(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link, p.why = nil, why.Error()
	p.trying.Do(func() { close(p.tried) })
}

// current returns the connection in use, or why there is none.
func (p *provider) current() (l *link, list listing, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link, p.list, p.why
}

// Tools implements tool.Provider.
func (p *provider) Tools(context.Context) ([]tool.Tool, error) {
	_, list, _ := p.current()
	return list.tools, nil
}
