package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.mau.fi/whatsmeow"
	"go.mau.fi/whatsmeow/types"
	"go.mau.fi/whatsmeow/types/events"

	"github.com/flynnhost/flynn/sdk/backoff"
	"github.com/flynnhost/flynn/sdk/cache"
	"github.com/flynnhost/flynn/sdk/channel"
)

// linked is a linked device of a phone.
type linked struct {
	settings settings
	log      *slog.Logger
	dir      string
	open     func(ctx context.Context) (*device, error)
	login    time.Duration // how long a linked device may take until its first login
	choices  *choices
	receipts *statuses

	last cache.Map[string, ref] // latest message of each conversation, for the typing indicator

	mu     sync.Mutex
	device *device // nil between connections
	ready  bool    // connected and linked
}

func newLinked(s settings, c channel.Config) *linked {
	l := &linked{
		settings: s, log: c.Log, dir: c.StateDir, choices: newChoices(), receipts: newStatuses(), last: cache.Map[string, ref]{Most: maxLast},
		login: firstLogin,
	}
	l.open = func(ctx context.Context) (*device, error) { return openDevice(ctx, l.dir, s.DeviceName, l.log) }
	return l
}

// ending is the reason why a session ended, the state to show, and how long to wait before the next session.
type ending struct {
	state channel.State
	why   string
	wait  time.Duration // 0: the usual pause
}

// Run implements line: session after session until ctx ends.
func (l *linked) Run(ctx context.Context, in channel.Inbox) error {
	again := backoff.Backoff{First: 250 * time.Millisecond, Most: 2 * time.Minute}
	var end ending
	again.Loop(ctx, func(ctx context.Context) error {
		end = l.session(ctx, in)
		return nil
	}, func(_ error, wait time.Duration) time.Duration {
		l.log.Warn("session ended", "reason", end.why)
		in.Status(end.state, end.why)
		return max(end.wait, wait)
	})
	return nil
}

// session lives from opening the account to its end. The library reconnects by itself as long as the account is linked.
func (l *linked) session(ctx context.Context, in channel.Inbox) ending {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d, err := l.open(ctx)
	if err != nil {
		return ending{channel.StateDegraded, err.Error(), 0}
	}
	defer d.Close()
	s := &session{linked: l, device: d, in: in, ctx: ctx, codes: make(chan []string, 4), ended: make(chan ending, 1)}
	l.use(d, false)
	defer l.use(nil, false)
	defer cancel() // before Close: a message that waits for the host must not hold it up
	d.Handle(s.handle)
	in.Status(channel.StateConnecting, "connecting to WhatsApp")
	if err := d.Connect(ctx); err != nil {
		return ending{channel.StateDegraded, fmt.Sprintf("connect: %v", err), 0}
	}
	return s.wait()
}

func (l *linked) use(d *device, ready bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.device, l.ready = d, ready
}

// current returns the device when something can be sent over it.
func (l *linked) current() (*device, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.device == nil || !l.ready {
		return nil, errNotReady
	}
	return l.device, nil
}

var errNotReady = errors.New("WhatsApp is not connected")

// session is one device while it is open.
type session struct {
	*linked
	device *device
	in     channel.Inbox
	ctx    context.Context // of the session
	codes  chan []string   // to be shown one after another; an empty list: the phone has taken one
	ended  chan ending
}

const (
	firstCode  = time.Minute // as WhatsApp's own client shows them
	nextCode   = 20 * time.Second
	firstLogin = 2 * time.Minute
	scanText   = "scan this code with WhatsApp on the phone: Settings, Linked devices, Link a device"
)

// wait shows codes until the session ends. The library does not reconnect by itself if the connection ends right after linking.
func (s *session) wait() ending {
	var codes []string
	var next, late <-chan time.Time
	for {
		select {
		case codes = <-s.codes:
			next = nil
			if len(codes) == 0 {
				late = time.After(s.login)
				continue
			}
			s.in.LoginCode(codes[0], scanText)
			codes, next = codes[1:], time.After(firstCode)
		case <-late:
			if _, err := s.current(); err != nil {
				return ending{channel.StateConnecting, "linked; logging in once more", 0}
			}
		case <-next:
			next = nil
			if len(codes) > 0 {
				s.in.LoginCode(codes[0], scanText)
				codes, next = codes[1:], time.After(nextCode)
			}
		case end := <-s.ended:
			return end
		case <-s.ctx.Done():
			return ending{}
		}
	}
}

// end ends the session; the first reason counts.
func (s *session) end(state channel.State, why string, wait time.Duration) {
	select {
	case s.ended <- ending{state, why, wait}:
	default:
	}
}

func (s *session) show(codes []string) {
	select {
	case s.codes <- codes:
	case <-s.ctx.Done():
	}
}

// handle handles one event of the library. It returns false if a message has to be delivered again.
func (s *session) handle(event any) bool {
	switch e := event.(type) {
	case *events.Message:
		return s.receive(e)
	case *events.Receipt:
		s.learn(e)
	case *events.UndecryptableMessage:
		s.log.Warn("a message could not be read yet; WhatsApp was asked for it again", "chat", e.Info.Chat.String())
	default:
		s.connection(event)
	}
	return true
}

// connection handles the events of the connection.
func (s *session) connection(event any) {
	switch e := event.(type) {
	case *events.QR:
		s.show(e.Codes)
	case *events.QRScannedWithoutMultidevice:
		s.in.Status(channel.StateAuthRequired, "the phone's WhatsApp is too old to link a device: update it and scan again")
	case *events.PairSuccess:
		s.show(nil)
		s.in.Status(channel.StateConnecting, "linked to "+e.ID.User)
	case *events.PairError:
		s.end(channel.StateAuthRequired, fmt.Sprintf("the phone could not be linked: %v", e.Error), 0)
	case *events.Connected:
		number, _ := s.device.Own()
		s.use(s.device, true)
		s.in.Status(channel.StateReady, "linked to "+number.User)
	case *events.Disconnected:
		s.use(s.device, false)
		if number, _ := s.device.Own(); number.IsEmpty() {
			s.end(channel.StateAuthRequired, "nobody has scanned the code", 0)
			return
		}
		s.in.Status(channel.StateConnecting, "reconnecting to WhatsApp")
	case *events.LoggedOut:
		if err := s.device.Forget(s.ctx); err != nil {
			s.log.Error("forget the session that the phone has ended", "error", err)
		}
		s.end(channel.StateAuthRequired, "the phone has removed this device; a new code follows", 0)
	case *events.StreamReplaced:
		s.end(channel.StateDegraded, "another program uses the same session", time.Minute)
	case *events.ClientOutdated:
		s.end(channel.StateDegraded, "WhatsApp no longer takes this version: install a newer one of the plugin", time.Hour)
	case *events.TemporaryBan:
		s.end(channel.StateDegraded, e.String(), max(e.Expire, time.Hour))
	case *events.ConnectFailure:
		s.end(channel.StateDegraded, fmt.Sprintf("WhatsApp refuses: %s %s", e.Reason, e.Message), 0)
	case *events.CATRefreshError:
		s.end(channel.StateDegraded, e.PermanentDisconnectDescription(), 0)
	}
}

// receive delivers a message. WhatsApp gets an ack when the host has it.
func (s *session) receive(m *events.Message) bool {
	number, hidden := s.device.Own()
	e, r, ok := eventOf(m, number, hidden, s.settings.Groups)
	if !ok {
		return true
	}
	e, err := s.choices.deliver(s.ctx, s.in, e)
	if err == nil {
		s.last.Set(e.Conversation.ID, r, 0)
	}
	return channel.Settled(err)
}

// learn records that messages of ours have arrived.
func (l *linked) learn(r *events.Receipt) {
	switch r.Type {
	case types.ReceiptTypeDelivered, types.ReceiptTypeRead, types.ReceiptTypePlayed:
		for _, id := range r.MessageIDs {
			l.receipts.learn(id, fate{wamid: id})
		}
	}
}

// mediaOf returns the library's word for a sort of medium.
func mediaOf(kind string) whatsmeow.MediaType {
	switch kind {
	case "image":
		return whatsmeow.MediaImage
	case "video":
		return whatsmeow.MediaVideo
	case "audio":
		return whatsmeow.MediaAudio
	}
	return whatsmeow.MediaDocument
}
