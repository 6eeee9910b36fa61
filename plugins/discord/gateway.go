package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/flynnhost/flynn/sdk/backoff"
)

// The operations of the gateway: https://discord.com/developers/docs/topics/opcodes-and-status-codes#gateway.
const (
	opDispatch       = 0
	opHeartbeat      = 1
	opIdentify       = 2
	opResume         = 6
	opReconnect      = 7
	opInvalidSession = 9
	opHello          = 10
	opAck            = 11
)

const (
	maxFrame     = 16 << 20 // bytes of one event; a large server introduces itself in some megabytes
	helloTimeout = 20 * time.Second
	writeTimeout = 10 * time.Second
	// closeResumable ends a connection without ending the session, which 1000 and 1001 would do.
	closeResumable websocket.StatusCode = 4000
)

// session is the data needed to resume a connection.
type session struct {
	ID  string `json:"id"`
	URL string `json:"url"` // where to resume
	Seq int64  `json:"seq"` // of the last event

	// The bot's own user, which Discord sends only at the beginning.
	Self string `json:"self"` // id of its account
	App  string `json:"app"`  // id of its application
}

// frame is a message of the gateway.
type frame struct {
	Op   int             `json:"op"`
	Data json.RawMessage `json:"d"`
	Seq  *int64          `json:"s,omitempty"`
	Type string          `json:"t,omitempty"`
}

// gateway receives events. One connection follows another, and one session spans many of them.
type gateway struct {
	client  *client
	intents int
	session session
	// dispatch handles an event before the next is read.
	dispatch func(ctx context.Context, kind string, seq int64, data json.RawMessage) error
}

// link is one connection.
type link struct {
	conn    *websocket.Conn
	seq     atomic.Int64
	acked   atomic.Bool // the last heartbeat was answered
	working atomic.Bool // an event is being handled, so nobody reads
}

// fatalError is a close code after which no new try can succeed.
type fatalError struct {
	code websocket.StatusCode
	hint string
}

func (e *fatalError) Error() string { return fmt.Sprintf("%s (close code %d)", e.hint, e.code) }

// hints say what a person has to do about a close code.
var hints = map[websocket.StatusCode]string{
	4004: "discord does not accept the token: reset it on the page Bot of the developer portal, and set token_env or token_file",
	4010: "discord refuses the shard", 4011: "the bot is in too many servers for one connection",
	4012: "discord does not speak this version of the gateway any more",
	4013: "discord does not know an intent that the plugin asks for",
	4014: `discord refuses the intent MESSAGE CONTENT: turn on "Message Content Intent" on the page Bot of the developer portal, ` +
		"or set message_content = false",
}

var (
	errReconnect = errors.New("discord asks to connect again")
	errInvalid   = errors.New("the session has ended")
	errZombie    = errors.New("discord does not answer heartbeats")
)

// connected makes one connection and returns when it has ended. up reports whether a session began.
func (g *gateway) connected(ctx context.Context) (up bool, err error) {
	address, err := g.address(ctx)
	if err != nil {
		return false, err
	}
	dialing, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	conn, _, err := websocket.Dial(dialing, address, &websocket.DialOptions{HTTPClient: g.client.http})
	if err != nil {
		g.session.URL = "" // so that Discord is asked for another one
		return false, fmt.Errorf("connect to the gateway: %w", err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(maxFrame)
	l := &link{conn: conn}
	interval, err := g.hello(dialing, l)
	if err != nil {
		return false, g.closed(err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	var beating sync.WaitGroup
	beating.Go(func() { stop(l.beat(ctx, interval)) })
	defer beating.Wait()
	defer stop(nil)
	up, err = g.read(ctx, l)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if status := websocket.CloseStatus(err); status == -1 {
		_ = conn.Close(closeResumable, "")
	}
	return up, g.closed(err)
}

// address returns where to connect to.
func (g *gateway) address(ctx context.Context) (string, error) {
	base := g.session.URL
	if base == "" {
		var out struct {
			URL   string `json:"url"`
			Start struct {
				Remaining *int  `json:"remaining"`
				After     int64 `json:"reset_after"` // milliseconds
			} `json:"session_start_limit"`
		}
		if err := g.client.patient(ctx, "GET", "/gateway/bot", nil, &out); err != nil {
			return "", fmt.Errorf("ask for the gateway: %w", err)
		}
		if n := out.Start.Remaining; n != nil && *n <= 0 { // going on would cost the bot its token
			return "", &limitedError{min(time.Duration(max(out.Start.After, 1000))*time.Millisecond, 24*time.Hour)}
		}
		base = out.URL
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "wss" && (u.Scheme != "ws" || strings.HasPrefix(g.client.base, "https:")) {
		g.session.URL = ""
		return "", errors.New("discord names a gateway without encryption")
	}
	u.RawQuery = "v=10&encoding=json"
	return u.String(), nil
}

// hello reads the first frame and begins or resumes the session.
func (g *gateway) hello(ctx context.Context, l *link) (time.Duration, error) {
	f, err := l.next(ctx)
	if err != nil {
		return 0, err
	}
	var hello struct {
		Interval int64 `json:"heartbeat_interval"`
	}
	if err := json.Unmarshal(f.Data, &hello); f.Op != opHello || err != nil || hello.Interval < 10 || hello.Interval > 3_600_000 {
		return 0, fmt.Errorf("the gateway begins with operation %d instead of a hello", f.Op)
	}
	l.acked.Store(true)
	l.seq.Store(g.session.Seq)
	if g.session.ID != "" && g.session.Seq > 0 {
		resume := map[string]any{"token": g.client.token, "session_id": g.session.ID, "seq": g.session.Seq}
		return time.Duration(hello.Interval) * time.Millisecond, l.write(ctx, opResume, resume)
	}
	return time.Duration(hello.Interval) * time.Millisecond, l.write(ctx, opIdentify, map[string]any{
		"token": g.client.token, "intents": g.intents,
		"properties": map[string]string{"os": runtime.GOOS, "browser": "flynn", "device": "flynn"},
	})
}

// read handles frames until the connection ends.
func (g *gateway) read(ctx context.Context, l *link) (up bool, err error) {
	for {
		f, err := l.next(ctx)
		if err != nil {
			return up, err
		}
		switch f.Op {
		case opDispatch:
			up = up || f.Type == "READY" || f.Type == "RESUMED"
			l.working.Store(true)
			err = g.event(ctx, l, f)
			l.acked.Store(true) // the answer may be waiting to be read
			l.working.Store(false)
		case opHeartbeat:
			err = l.write(ctx, opHeartbeat, l.position())
		case opAck:
			l.acked.Store(true)
		case opReconnect:
			err = errReconnect
		case opInvalidSession:
			if string(f.Data) != "true" {
				g.session = session{}
			}
			err = errInvalid
		}
		if err != nil {
			return up, err
		}
	}
}

// event handles an event. Its number counts only if that succeeds.
func (g *gateway) event(ctx context.Context, l *link, f frame) error {
	if f.Seq == nil || *f.Seq < 0 {
		return errors.New("an event of the gateway has no sequence number")
	}
	if f.Type == "READY" {
		var ready struct {
			SessionID string `json:"session_id"`
			URL       string `json:"resume_gateway_url"`
		}
		if err := json.Unmarshal(f.Data, &ready); err != nil || ready.SessionID == "" {
			return errors.New("the READY of discord names no session")
		}
		g.session = session{ID: ready.SessionID, URL: ready.URL}
	}
	if err := g.dispatch(ctx, f.Type, *f.Seq, f.Data); err != nil {
		return err
	}
	g.session.Seq = *f.Seq
	l.seq.Store(*f.Seq)
	return nil
}

// closed returns the error for the end of a connection, and forgets a session that cannot be resumed.
func (g *gateway) closed(err error) error {
	code := websocket.CloseStatus(err)
	if hint, ok := hints[code]; ok {
		g.session = session{}
		return &fatalError{code, hint}
	}
	if code == 4007 || code == 4009 || code == 4003 { // a number that it does not know; timed out; never began
		g.session = session{}
	}
	return err
}

// beat sends heartbeats, and fails when Discord does not answer them.
func (l *link) beat(ctx context.Context, interval time.Duration) error {
	if backoff.Sleep(ctx, rand.N(interval)) != nil {
		return nil
	}
	for {
		if !l.acked.Swap(false) && !l.working.Load() {
			return errZombie
		}
		if err := l.write(ctx, opHeartbeat, l.position()); err != nil {
			return fmt.Errorf("send heartbeat: %w", err)
		}
		if backoff.Sleep(ctx, interval) != nil {
			return nil
		}
	}
}

// position returns the number of the last event, or nothing before the first.
func (l *link) position() any {
	if n := l.seq.Load(); n > 0 {
		return n
	}
	return nil
}

func (l *link) next(ctx context.Context) (frame, error) {
	var f frame
	_, data, err := l.conn.Read(ctx)
	if err != nil {
		return f, fmt.Errorf("read from the gateway: %w", err)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("read from the gateway: %w", err)
	}
	return f, nil
}

func (l *link) write(ctx context.Context, op int, d any) error {
	data, err := json.Marshal(map[string]any{"op": op, "d": d})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return l.conn.Write(ctx, websocket.MessageText, data)
}
