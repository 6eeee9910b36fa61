package link

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/flynnhost/flynn/host/sandbox/frame"
)

// Handler handles a connection that a program inside has made, such as to the proxy, and returns when it is over. Its input is not trusted.
// ctx ends when the program or the link is gone.
type Handler func(ctx context.Context, conn io.ReadWriteCloser)

// connections are those that programs inside have made. As with calls, the link's goroutine delivers without blocking, and each stream has
// its own credit, so a flood on one delays nothing else.
type connections struct {
	link   *Link
	serve  map[frame.ConnectKind]Handler
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu   sync.Mutex
	open map[uint32]*connection
	last uint32 // the last id
}

func newConnections(l *Link, serve map[frame.ConnectKind]Handler) *connections {
	ctx, cancel := context.WithCancel(context.Background())
	return &connections{link: l, serve: serve, ctx: ctx, cancel: cancel, open: make(map[uint32]*connection)}
}

// end ends all connections and waits for their goroutines. It is called when nothing more is delivered.
func (cs *connections) end() {
	if cs == nil {
		return
	}
	cs.cancel()
	cs.work.Wait()
}

// Connections returns the number of open connections of programs inside.
func (l *Link) Connections() int { return l.connections.count() }

func (cs *connections) count() int {
	if cs == nil {
		return 0
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.open)
}

// deliver handles a frame of a connection. The supervisor may have sent it before it learned that the connection is over.
func (cs *connections) deliver(f frame.Frame) error {
	if cs == nil {
		return fmt.Errorf("%w: a connection, but no proxy was offered", frame.ErrProtocol)
	}
	cs.mu.Lock()
	c, last := cs.open[f.ID], cs.last
	cs.mu.Unlock()
	switch {
	case f.Type == frame.Connect:
		return cs.accept(f.ID, f.Payload)
	case f.ID > last:
		return fmt.Errorf("%w: frame type %d for connection %#x, which was never opened", frame.ErrProtocol, f.Type, f.ID)
	case c == nil:
		return nil
	}
	return c.deliver(f)
}

// accept opens a connection and starts its handler.
func (cs *connections) accept(id uint32, payload []byte) error {
	var body frame.ConnectBody
	if err := frame.Decode(payload, &body); err != nil {
		return err
	}
	serve := cs.serve[body.Kind]
	if serve == nil {
		return fmt.Errorf("%w: a connection of unknown kind %.20q", frame.ErrProtocol, body.Kind)
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if id <= cs.last || len(cs.open) >= frame.MaxConnections {
		return fmt.Errorf("%w: connection %#x after %#x, with %d open", frame.ErrProtocol, id, cs.last, len(cs.open))
	}
	ctx, cancel := context.WithCancel(cs.ctx)
	c := &connection{
		link: cs.link, id: id, ctx: ctx, cancel: cancel,
		out:    streamReader{link: cs.link, id: id, stream: frame.Out, in: frame.NewInbox(make(chan struct{}, 1))},
		credit: frame.NewSendWindow(),
	}
	cs.open[id], cs.last = c, id
	cs.work.Go(func() {
		defer cancel()
		serve(ctx, c)
		cs.drop(id)
	})
	return nil
}

// drop forgets a connection before it tells the supervisor, which may then open another one.
func (cs *connections) drop(id uint32) {
	cs.mu.Lock()
	delete(cs.open, id)
	cs.mu.Unlock()
	_ = cs.link.send(frame.Frame{Type: frame.Drop, ID: id}) // a failure has closed the link
}

// connection is a connection as a stream of bytes.
type connection struct {
	link   *Link
	id     uint32
	ctx    context.Context
	cancel context.CancelFunc
	out    streamReader      // from the program
	credit *frame.SendWindow // to the program
}

func (c *connection) deliver(f frame.Frame) error {
	switch {
	case f.Type == frame.Data && f.Stream == frame.Out:
		return c.out.in.Put(f.Payload)
	case f.Type == frame.End && f.Stream == frame.Out:
		c.out.in.End()
		return nil
	case f.Type == frame.Credit && f.Stream == frame.In:
		return c.credit.Grant(f.Payload)
	case f.Type == frame.Drop:
		c.cancel()
		return nil
	}
	return fmt.Errorf("%w: frame type %d on stream %d of a connection", frame.ErrProtocol, f.Type, f.Stream)
}

// Read returns io.EOF when the program sends no more.
func (c *connection) Read(p []byte) (int, error) { return c.out.read(c.ctx, p) }

// Write blocks until there is credit. Written data reaches the program even if the connection is closed right after.
func (c *connection) Write(p []byte) (int, error) {
	return c.link.push(c.ctx, c.id, c.credit, p)
}

// Close makes Read and Write fail. The connection ends when its handler returns.
func (c *connection) Close() error {
	c.cancel()
	return nil
}
