// Package link keeps the socket of one conversation open, for the clients in the terminal.
//
// Start with New and Run, and read Updates. A message that was neither accepted nor refused is sent again, with its id, after each
// reconnection, so that it is answered once. The package shows nothing and decides nothing.
package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/sdk/backoff"
)

const (
	dialTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	// silence is how long a server may send nothing: two missed pings.
	silence   = 2*gateway.PingInterval + 5*time.Second
	firstWait = 100 * time.Millisecond
	lastWait  = 3 * time.Second
	// maxFrame bounds a frame of the server; a history of long outputs is the largest.
	maxFrame = 64 << 20
)

// errRefused is returned when the server refuses this client for good.
var errRefused = errors.New("the gateway refused")

// Update is a frame, or the error that ended a connection.
type Update struct {
	Frame gateway.ServerFrame
	Lost  error
}

// Link keeps one conversation's socket open. A frame that was neither accepted nor refused is sent again, with its id,
// after each reconnection.
type Link struct {
	// Updates are the frames of the server, and the losses of the connection. It is closed when Run returns.
	Updates <-chan Update
	// Patience is how long a lost server may stay away. It is set before Run.
	Patience time.Duration

	url          string // ws://...
	token        string
	channel      string
	conversation string
	updates      chan Update

	mu     sync.Mutex // guards what follows
	conn   *websocket.Conn
	ready  bool // the history of this connection has come
	unsent []gateway.ClientFrame
}

// New returns a link to the gateway at a URL such as http://127.0.0.1:7351.
func New(address, token, channel, conversation string) (*Link, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("gateway address %q is not a URL; write for example http://%s", address, gateway.DefaultListen)
	}
	scheme := "ws"
	if u.Scheme == "https" {
		scheme = "wss"
	}
	updates := make(chan Update)
	return &Link{
		url: scheme + "://" + u.Host + gateway.SocketPath, token: token, channel: channel, conversation: conversation,
		updates: updates, Updates: updates,
	}, nil
}

// Run connects, and connects again when the connection is lost. It returns when ctx ends, when the first connection
// fails, when the gateway refuses, or when it stays away for too long. It closes Updates.
func (l *Link) Run(ctx context.Context) error {
	defer close(l.updates)
	var lostAt time.Time
	again := backoff.Backoff{First: firstWait, Most: lastWait}
	for first := true; ; first = false {
		greeted, err := l.connect(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errRefused):
			return err
		case first && !greeted:
			return fmt.Errorf("reach flynn at %s: %w; is it running? start it with: flynn serve", l.url, err)
		case greeted || lostAt.IsZero():
			lostAt = time.Now()
			again.Reset()
			if !l.tell(ctx, Update{Lost: err}) {
				return nil
			}
		case time.Since(lostAt) > l.Patience:
			return fmt.Errorf("flynn has been away for %s: %w", l.Patience, err)
		}
		if backoff.Sleep(ctx, again.Failed(0)) != nil {
			return nil
		}
	}
}

// connect serves one connection until it ends, and reports whether the gateway welcomed it.
func (l *Link) connect(ctx context.Context) (greeted bool, err error) {
	dial, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, answer, err := websocket.Dial(dial, l.url, &websocket.DialOptions{Subprotocols: []string{gateway.Subprotocol}})
	if err != nil {
		if answer != nil && answer.StatusCode == 403 {
			return false, fmt.Errorf("%w: it does not accept the host name in %s", errRefused, l.url)
		}
		return false, err
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxFrame)
	l.attach(conn)
	defer l.attach(nil)
	hello := gateway.ClientFrame{Type: gateway.TypeHello, Token: l.token, Channel: l.channel, Conversation: l.conversation}
	if err := put(ctx, conn, hello); err != nil {
		return false, err
	}
	for {
		f, err := get(ctx, conn)
		if err != nil {
			return greeted, err
		}
		switch {
		case f.Type == gateway.TypeWelcome:
			greeted = true
		case f.Type == gateway.TypeError && (f.Code == gateway.CodeUnauthorized || f.Code == gateway.CodeBadRequest && f.ID == ""):
			return greeted, fmt.Errorf("%w: %s", errRefused, f.Message)
		}
		l.settle(f)
		if !l.tell(ctx, Update{Frame: f}) {
			return greeted, ctx.Err()
		}
		if f.Type == gateway.TypeHistory {
			if err := l.resend(ctx); err != nil {
				return greeted, err
			}
		}
	}
}

func (l *Link) tell(ctx context.Context, u Update) bool {
	select {
	case l.updates <- u:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *Link) attach(conn *websocket.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.ready = conn, false
}

// settle removes frames that the gateway has answered, or shows in its history.
func (l *Link) settle(f gateway.ServerFrame) {
	done := map[string]bool{}
	switch f.Type {
	case gateway.TypeAccepted, gateway.TypeError:
		done[f.ID] = true
	case gateway.TypeHistory:
		for _, e := range f.Entries {
			done[e.Key] = e.From == gateway.FromUser
		}
	default:
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsent = slices.DeleteFunc(l.unsent, func(f gateway.ClientFrame) bool { return done[f.ID] })
}

func (l *Link) resend(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready = true
	for _, s := range l.unsent {
		if err := put(ctx, l.conn, s); err != nil {
			return err
		}
	}
	return nil
}

// Send sends a message with an id. It never fails: without a connection, the message is sent with the next one.
// Files are handles of uploaded files.
func (l *Link) Send(ctx context.Context, id, text string, files ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := gateway.ClientFrame{Type: gateway.TypeSend, ID: id, Text: text, Files: files}
	l.unsent = append(l.unsent, f)
	if l.ready {
		_ = put(ctx, l.conn, f) // a failure ends the connection, and the next one sends it again
	}
}

// Pending reports whether a message is neither accepted nor refused.
func (l *Link) Pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.unsent) > 0
}

// Stop ends the running turn.
func (l *Link) Stop(ctx context.Context) error {
	return l.now(ctx, gateway.ClientFrame{Type: gateway.TypeStop})
}

// Decide answers a request for approval.
func (l *Link) Decide(ctx context.Context, approval string, grant bool, scope string) error {
	return l.now(ctx, gateway.ClientFrame{Type: gateway.TypeDecide, Approval: approval, Grant: &grant, Scope: scope})
}

// now sends a frame that would make no sense after a reconnection.
func (l *Link) now(ctx context.Context, f gateway.ClientFrame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ready {
		return errors.New("not connected")
	}
	return put(ctx, l.conn, f)
}

func put(ctx context.Context, conn *websocket.Conn, f gateway.ClientFrame) error {
	data, err := jsonform.Marshal(f)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, data)
}

func get(ctx context.Context, conn *websocket.Conn) (gateway.ServerFrame, error) {
	var f gateway.ServerFrame
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	_, data, err := conn.Read(ctx)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("read a frame of the gateway: %w", err)
	}
	return f, nil
}
