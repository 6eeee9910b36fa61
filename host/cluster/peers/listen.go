package peers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/selfsigned"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// acceptPause is the delay after a failure to accept, for example for lack of descriptors.
const acceptPause = 50 * time.Millisecond

// acceptor serves the hosts that dial this one.
type acceptor struct {
	*Network
	own   Ownership
	views Views
}

// serve accepts until the listener is closed.
func (a *acceptor) serve(ctx context.Context, work *sync.WaitGroup) error {
	for {
		c, err := a.net.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			time.Sleep(acceptPause)
		default:
			a.enter(c)
			work.Go(func() {
				defer c.Close()
				defer a.forget(c)
				if err := a.meet(ctx, c); err != nil && ctx.Err() == nil {
					a.cfg.Log.Debug("a connection of another host has ended", "from", c.RemoteAddr().String(), "error", err)
				}
			})
		}
	}
}

// enter counts a connection, and closes another one if there are too many that have said nothing, so that these keep no host out.
func (a *acceptor) enter(c net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.half) >= maxHalf {
		for other := range a.half { // in no order
			other.Close()
			delete(a.half, other)
			break
		}
	}
	a.half[c] = true
}

// meet finds out who has dialed, and does what that host asks for.
func (a *acceptor) meet(ctx context.Context, plain net.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := plain.SetDeadline(time.Now().Add(handshake)); err != nil {
		return err
	}
	early, cancelEarly := context.WithTimeout(ctx, handshake)
	defer cancelEarly()
	c := tls.Server(plain, a.settings())
	if err := c.HandshakeContext(early); err != nil {
		return err
	}
	f, err := readFrame(c) // before anything is decided: what is not read would cut off the refusal
	if err != nil {
		return err
	}
	if why := a.knows(early, plain, c); why != "" {
		return refuse(c, why)
	}
	switch f.kind {
	case ping:
		_, err = c.Write(appendFrame(nil, ok, nil))
		return err
	case tell:
		return a.hear(c, f.body)
	case watch:
		return a.show(ctx, c, f.body)
	}
	return fmt.Errorf("%w: a connection begins with a frame of kind %q", errProtocol, byte(f.kind))
}

// knows says why the other end of a connection is none of the hosts; it is "" if it is one. TLS has proved that it has the key.
func (a *acceptor) knows(ctx context.Context, plain net.Conn, c *tls.Conn) string {
	state := c.ConnectionState()
	if state.NegotiatedProtocol != protocol || len(state.PeerCertificates) != 1 {
		return "another protocol"
	}
	all, err := a.cfg.Store.Peers(ctx)
	if err != nil {
		return "the store cannot be read"
	}
	fingerprint := selfsigned.Fingerprint(state.PeerCertificates[0])
	for _, p := range all {
		if p.Fingerprint == fingerprint {
			if !a.prove(plain, fingerprint) {
				return "too many connections"
			}
			return ""
		}
	}
	return "the key is that of no host which is alive"
}

// refuse tells the other end why the connection ends.
func refuse(w io.Writer, why string) error {
	_, err := w.Write(appendFrame(nil, refusal, []byte(why)))
	return errors.Join(errors.New(why), err)
}

// hear takes what has happened at another host in a conversation that this one owns.
func (a *acceptor) hear(c *tls.Conn, body []byte) error {
	p, err := readPlace(body)
	if err != nil {
		return err
	}
	events, err := readEvents(c, p, maxTold)
	if err != nil {
		return err
	}
	if !a.own.Holds(store.ConversationOwner(p.key())) {
		return refuse(c, notOwned)
	}
	for _, e := range events {
		if !tellable(e.Kind) {
			return fmt.Errorf("%w: an event %q is told", errProtocol, e.Kind)
		}
	}
	for _, e := range events {
		a.views.Publish(e)
	}
	_, err = c.Write(appendFrame(nil, ok, nil))
	return err
}

// maxTold bounds the events that are told at once.
const maxTold = 8

// tellable reports whether an event may be of another host's: that is so for commands, which any host carries out.
func tellable(k message.EventKind) bool {
	return k == message.TurnStarted || k == message.ReplyReady || k == message.TurnDone
}

const notOwned = "the conversation belongs to another host"

// readEvents reads up to so many events, which end with ok.
func readEvents(r io.Reader, p place, most int) (events []message.Event, err error) {
	size := 0
	for {
		f, err := readFrame(r)
		switch {
		case err != nil:
			return nil, err
		case f.kind == ok:
			return events, nil
		case f.kind == refusal:
			return nil, fmt.Errorf("it says: %q", f.body)
		case f.kind == gap: // it is in the store
			continue
		case f.kind != event:
			return nil, fmt.Errorf("%w: a frame of kind %q comes among events", errProtocol, byte(f.kind))
		}
		e, err := readEvent(f.body, p)
		if err != nil {
			return nil, err
		}
		if size += len(f.body); len(events) == most || size > maxPast {
			return nil, fmt.Errorf("%w: it tells too much", errProtocol)
		}
		events = append(events, e)
	}
}

// show shows a conversation to a watcher, until it goes, is too slow, or this host does not own the conversation any more.
func (a *acceptor) show(ctx context.Context, c *tls.Conn, body []byte) error {
	p, err := readPlace(body)
	if err != nil {
		return err
	}
	key := store.ConversationOwner(p.key())
	told, events, stop := a.views.Local(p.Channel, p.Conversation)
	defer stop()
	if !a.own.Holds(key) { // looked at after Local, so that no event of another owner is among them
		return refuse(c, notOwned)
	}
	var out []byte
	for _, e := range told {
		out = appendEvent(out, e)
	}
	if err := send(c, appendFrame(out, ok, nil)); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	gone := make(chan struct{})
	defer func() { // ends the goroutine
		c.NetConn().Close()
		<-gone
	}()
	go func() {
		defer close(gone)
		c.Read(make([]byte, 1)) // a watcher says nothing more: this ends with the connection, or with what breaks the protocol
	}()
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		out := out[:0]
		select {
		case e, open := <-events:
			for more := len(events); ; more-- {
				if !open {
					return errors.New("it reads too slowly")
				}
				out = appendEvent(out, e)
				if more == 0 || len(out) > maxFrame {
					break
				}
				e, open = <-events
			}
		case <-tick.C:
			out = appendFrame(out, beat, nil)
		case <-gone:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if !a.own.Holds(key) {
			return refuse(c, notOwned)
		}
		if err := send(c, out); err != nil {
			return err
		}
	}
}

// send writes what a watcher must take in time.
func send(c *tls.Conn, p []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := c.Write(p)
	return err
}
