package tui

import (
	"context"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/gateway/client/link"
)

const (
	// batchTime and batchFrames bound what is gathered before the screen changes.
	batchTime   = 16 * time.Millisecond
	batchFrames = 512
	// patience is how long a host may stay away: the person leaves sooner, or wants to find the draft again.
	patience = 30 * 24 * time.Hour
	queued   = 64 // frames that wait for the socket
)

// network opens connections, and knows when all of them have ended.
type network struct {
	ctx        context.Context
	url, token string
	host       client.Remote
	running    sync.WaitGroup
}

// after has the program get a message later, unless it ends before.
func (n *network) after(d time.Duration, msg tea.Msg) tea.Cmd {
	return func() tea.Msg {
		select {
		case <-time.After(d):
			return msg
		case <-n.ctx.Done():
			return nil
		}
	}
}

// conn is the connection of one conversation. Its methods return at once.
type conn struct {
	talker
	updates <-chan link.Update
	todo    chan func(context.Context) error
	errs    chan error
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error // once ended is closed
}

// talker sends frames, and may take as long as the network does.
type talker interface {
	Send(ctx context.Context, id, text string, files ...string)
	Stop(ctx context.Context) error
	Decide(ctx context.Context, approval string, grant bool, scope string) error
}

// open connects to a conversation.
func (n *network) open(conversation string) (*conn, error) {
	l, err := link.New(n.url, n.token, gateway.ChannelTerminal, conversation)
	if err != nil {
		return nil, err
	}
	l.Patience = patience
	ctx, cancel := context.WithCancel(n.ctx)
	c := &conn{
		talker: l, updates: l.Updates, todo: make(chan func(context.Context) error, queued), errs: make(chan error, queued),
		cancel: cancel, ended: make(chan struct{}),
	}
	n.running.Go(func() {
		defer cancel()
		c.err = l.Run(ctx)
		close(c.ended)
	})
	n.running.Go(func() { c.work(ctx) })
	return c, nil
}

// work sends what was asked for, in order.
func (c *conn) work(ctx context.Context) {
	for {
		select {
		case do := <-c.todo:
			if err := do(ctx); err != nil {
				select {
				case c.errs <- err:
				default: // enough errors wait to be shown
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// later queues something to send, and reports whether there was room.
func (c *conn) later(do func(context.Context) error) bool {
	select {
	case c.todo <- do:
		return true
	default:
		return false
	}
}

func (c *conn) send(id, text string, files []string) bool {
	return c.later(func(ctx context.Context) error {
		c.Send(ctx, id, text, files...)
		return nil
	})
}

func (c *conn) stop() bool { return c.later(c.Stop) }

func (c *conn) decide(approval string, grant bool, scope string) bool {
	return c.later(func(ctx context.Context) error { return c.Decide(ctx, approval, grant, scope) })
}

// framesMsg is what has come over a connection.
type framesMsg struct {
	from    *conn
	updates []link.Update
	errs    []error // of what was sent
	ended   bool
	err     error // that ended it
}

// listen waits for what comes next, and gathers what follows at once.
func (c *conn) listen() tea.Cmd {
	return func() tea.Msg {
		m := framesMsg{from: c}
		if !c.take(&m, nil) {
			return m
		}
		timer := time.NewTimer(batchTime)
		defer timer.Stop()
		for len(m.updates) < batchFrames && c.take(&m, timer.C) {
		}
		return m
	}
}

// take adds one update to m. It returns false when the time is over, or when the connection has ended.
func (c *conn) take(m *framesMsg, over <-chan time.Time) bool {
	select {
	case u, ok := <-c.updates:
		if !ok {
			<-c.ended
			m.ended, m.err = true, c.err
			return false
		}
		m.updates = append(m.updates, u)
	case err := <-c.errs:
		m.errs = append(m.errs, err)
	case <-over:
		return false
	}
	return true
}
