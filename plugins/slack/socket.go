package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/slack-go/slack"

	"github.com/flynnhost/flynn/sdk/webapi"
)

const (
	maxEnvelope  = 4 << 20 // bytes
	helloTimeout = 15 * time.Second
	writeTimeout = 10 * time.Second
	pingEvery    = 20 * time.Second
	leaveTimeout = time.Minute // how long a replaced connection may go on
	maxQueue     = 256         // envelopes between a connection and the host
)

// link is one Socket Mode connection.
type link struct {
	conn  *websocket.Conn
	acks  chan string
	leave func()          // Slack requests another connection
	left  <-chan struct{} // closed by leave
	over  chan struct{}   // closed when the connection has ended
	err   error           // valid once over is closed
}

// dial requests an address, connects, and waits for the greeting.
func (w *web) dial(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	_, address, err := w.client.StartSocketModeContext(ctx)
	if err != nil {
		return nil, clean("open a connection", err)
	}
	if !webapi.Private(address) {
		return nil, errors.New("open a connection: slack names an address that is not encrypted")
	}
	conn, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: w.http})
	if err != nil {
		return nil, clean("connect", err) // without the address: it holds a ticket
	}
	conn.SetReadLimit(maxEnvelope)
	hello, err := readEnvelope(ctx, conn)
	if err == nil && hello.Type != "hello" {
		err = fmt.Errorf("the first message is %q, not a hello", hello.Type)
	}
	if err != nil {
		_ = conn.CloseNow()
		return nil, clean("wait for the hello", err)
	}
	left := make(chan struct{})
	leave := sync.OnceFunc(func() { close(left) })
	return &link{conn: conn, acks: make(chan string, maxQueue), leave: leave, left: left, over: make(chan struct{})}, nil
}

func readEnvelope(ctx context.Context, conn *websocket.Conn) (envelope, error) {
	_, text, err := conn.Read(ctx)
	if err != nil {
		return envelope{}, err
	}
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return envelope{}, fmt.Errorf("read envelope: %w", err)
	}
	return e, nil
}

// run handles the connection until it ends: it reads, writes acks, and sends pings.
func (l *link) run(ctx context.Context, q queue) {
	ctx, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { l.writeAcks(ctx) })
	work.Go(func() { l.watch(ctx) })
	l.err = l.read(ctx, q)
	stop()
	_ = l.conn.CloseNow()
	work.Wait()
	close(l.over)
}

// wait returns nil when another connection should be opened while this one continues, or the reason why it ended. missed reports whether
// messages may have been missed meanwhile.
func (l *link) wait(ctx context.Context) (missed bool, err error) {
	select {
	case <-l.left:
		return false, nil
	case <-l.over:
		select {
		case <-l.left: // it ended by appointment
			return true, nil
		default:
			return true, l.err
		}
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// read passes envelopes on until the connection ends.
func (l *link) read(ctx context.Context, q queue) error {
	for {
		e, err := readEnvelope(ctx, l.conn)
		if _, malformed := errors.AsType[*json.SyntaxError](err); malformed {
			continue
		}
		if _, malformed := errors.AsType[*json.UnmarshalTypeError](err); malformed {
			continue
		}
		if err != nil {
			return clean("read", err)
		}
		switch {
		case e.Type == "disconnect" && e.Reason == "link_disabled":
			return fmt.Errorf("socket mode is switched off for this app: %w", slack.SlackErrorResponse{Err: e.Reason})
		case e.Type == "disconnect": // "warning" precedes the end by some seconds, "refresh_requested" is immediate
			l.leave()
		case e.EnvelopeID != "":
			if !q.put(ctx, delivery{envelope: e, link: l}) {
				return ctx.Err()
			}
		}
	}
}

// ack confirms an envelope. It does not block: after a lost ack Slack sends the envelope again.
func (l *link) ack(id string) {
	select {
	case l.acks <- id:
	default:
	}
}

func (l *link) writeAcks(ctx context.Context) {
	for {
		select {
		case id := <-l.acks:
			text, _ := json.Marshal(map[string]string{"envelope_id": id})
			write, cancel := context.WithTimeout(ctx, writeTimeout)
			err := l.conn.Write(write, websocket.MessageText, text)
			cancel()
			if err != nil {
				_ = l.conn.CloseNow() // read returns the error
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// watch ends a connection without responses, and one that was replaced long ago.
func (l *link) watch(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	left := l.left
	var late <-chan time.Time
	for {
		select {
		case <-tick.C:
			ping, cancel := context.WithTimeout(ctx, writeTimeout)
			err := l.conn.Ping(ping)
			cancel()
			if err != nil {
				_ = l.conn.CloseNow()
				return
			}
		case <-left:
			left, late = nil, time.After(leaveTimeout)
		case <-late:
			_ = l.conn.CloseNow()
			return
		case <-ctx.Done():
			return
		}
	}
}
