// Command lines-channel is a channel plugin for programs: it connects to a TCP address and exchanges JSON lines, so that
// anything that can read and write lines can be a chat platform. The tests of the host use it as theirs.
//
// The program at the other end sends
//
//	{"type":"event","id":"1","conversation":"c","sender":"ann","text":"hi"}   a message; "group":true says that several people are there
//	{"type":"sent","key":"k"}                                               the send k was shown
//	{"type":"duplicate","key":"k"}                                          it was shown before
//
// and gets
//
//	{"type":"hello","pid":7}                       first, on every connection
//	{"type":"ack","id":"1"}                        the host has the event on disk; until then, send it again on each connection
//	{"type":"send","key":"k","conversation":"c","text":"hi"}     show this; "reply_to" and "possible_duplicate" may be there
//
// With -rich and the capabilities in plugin.toml that go with it, messages can be edited and deleted, typing shows, and files go
// both ways; see rich.go.
//
// By default it promises that the other end remembers keys for good. Where it does not, run it with -forgetful and
// say idempotent = false in plugin.toml. Where the other end takes several connections, and has one ID for an event on all of them, run it with
// -shared and say shared = true there: then all hosts that share a store connect.
package main

import (
	"context"
	"errors"
	"flag"
	"net"
	"sync"
	"time"

	"github.com/flynnhost/flynn/sdk/channel"
)

func main() {
	forgetful := flag.Bool("forgetful", false, "the other end does not remember keys")
	shared := flag.Bool("shared", false, "the other end takes connections of several hosts")
	able := flag.Bool("rich", false, "the other end edits, deletes, shows typing, and has files")
	flag.Parse()
	b := &bridge{forgetful: *forgetful, shared: *shared}
	if *able {
		channel.Main(&richBridge{b})
	}
	channel.Main(b)
}

// bridge is the channel: at most one link at a time.
type bridge struct {
	forgetful bool
	shared    bool
	config    channel.Config
	settings  struct {
		Address string `json:"address"`
	}

	asked asked
	mu    sync.Mutex
	link  *link // nil while there is no connection
}

// Describe implements channel.Channel.
func (b *bridge) Describe() channel.Description {
	return channel.Description{
		Name: "lines-channel", Version: "0.1.0",
		// The program at the address that the operator wrote vouches for its senders.
		Capabilities: channel.Capabilities{Idempotent: !b.forgetful, Shared: b.shared, Markdown: true, Senders: channel.SendersProved},
	}
}

// Configure implements channel.Channel.
func (b *bridge) Configure(_ context.Context, c channel.Config) error {
	b.config = c
	if err := c.Decode(&b.settings); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(b.settings.Address); err != nil {
		return channel.FieldErrors{{Path: "address", Message: "must be host:port"}}
	}
	return nil
}

// The pause between two attempts to connect.
const (
	firstPause = 20 * time.Millisecond
	mostPause  = 5 * time.Second
)

// Run implements channel.Channel.
func (b *bridge) Run(ctx context.Context, in channel.Inbox) error {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		connected, err := b.connect(ctx, in)
		if connected {
			pause = firstPause
		}
		if ctx.Err() != nil {
			return nil
		}
		in.Status(channel.StateConnecting, err.Error())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// connect holds one connection until it breaks.
func (b *bridge) connect(ctx context.Context, in channel.Inbox) (connected bool, err error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", b.settings.Address)
	if err != nil {
		return false, err
	}
	l := newLink(conn)
	b.use(l)
	defer b.use(nil)
	in.Status(channel.StateReady, "connected to "+b.settings.Address)
	return true, l.run(ctx, in)
}

func (b *bridge) use(l *link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.link = l
}

func (b *bridge) current() *link {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.link
}

var errNotConnected = errors.New("not connected")

// Send implements channel.Channel.
func (b *bridge) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	l := b.current()
	if l == nil {
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: firstPause}, errNotConnected
	}
	return l.send(ctx, s)
}
