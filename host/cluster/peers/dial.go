package peers

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/flynnhost/flynn/host/internal/selfsigned"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

const (
	// maxPast bounds the past events of a conversation, in bytes, and maxPastEvents their number.
	maxPast       = 16 << 20
	maxPastEvents = 100_000
)

// errNobody is returned for a conversation that no other host shows.
var errNobody = errors.New("no other host shows this conversation")

// owner returns the host that owns a conversation, if it is another one, and listens.
func (n *Network) owner(ctx context.Context, key message.ConversationKey) (store.Peer, error) {
	o, err := n.cfg.Store.Owner(ctx, store.ConversationOwner(key))
	if err != nil {
		return store.Peer{}, err
	}
	all, err := n.cfg.Store.Peers(ctx)
	if err != nil {
		return store.Peer{}, err
	}
	_, own := n.Self()
	for _, p := range all {
		if p.Host == o.Host && p.Incarnation == o.Incarnation && p.Fingerprint != own {
			return p, nil
		}
	}
	return store.Peer{}, errNobody
}

// link is a connection to another host.
type link struct {
	*tls.Conn
	in    *bufio.Reader
	plain net.Conn
	n     *Network
	stop  func() bool
}

// dial connects to a host, and begins with a frame. The connection is cut when ctx ends.
func (n *Network) dial(ctx context.Context, p store.Peer, k kind, body []byte) (*link, error) {
	if !n.On() {
		return nil, errNobody
	}
	early, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	plain, err := (&net.Dialer{}).DialContext(early, "tcp", p.Address)
	if err != nil {
		return nil, err
	}
	l := &link{plain: plain, n: n}
	l.stop = context.AfterFunc(ctx, func() { plain.Close() })
	if err := l.greet(early, p, appendFrame(nil, k, body)); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// greet proves who we are, and that the other end is the host that was meant.
func (l *link) greet(ctx context.Context, p store.Peer, first []byte) error {
	if err := l.plain.SetDeadline(time.Now().Add(handshake)); err != nil {
		return err
	}
	settings := l.n.settings()
	settings.InsecureSkipVerify = true // no authority has signed the certificate; its key is compared
	settings.ServerName = certName
	settings.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) != 1 || selfsigned.Fingerprint(s.PeerCertificates[0]) != p.Fingerprint {
			return errors.New("another program or host answers there")
		}
		return nil
	}
	l.Conn = tls.Client(l.plain, settings)
	l.in = bufio.NewReader(l.Conn)
	if err := l.HandshakeContext(ctx); err != nil {
		return err
	}
	if !l.n.prove(l.plain, p.Fingerprint) {
		return errors.New("there are too many connections to it")
	}
	_, err := l.Write(first)
	return err
}

// Close cuts the connection.
func (l *link) Close() {
	l.stop()
	l.plain.Close()
	l.n.forget(l.plain)
}

// Stream is what happens in a conversation at the host that owns it.
type Stream = interface {
	// Past are the events of the turns that run there, up to now.
	Past() []message.Event
	// Next waits for the next event; nil means that nothing has happened lately, and gap that watchers must read the store again. After an
	// error there are no more.
	Next() (e *message.Event, gap bool, err error)
	// Owned asks the store whether that host still owns the conversation.
	Owned(ctx context.Context) bool
	// Close ends the stream.
	Close()
}

// stream is a Stream.
type stream struct {
	*link
	of    store.Peer
	place place
	past  []message.Event
}

// Join begins to watch a conversation at the host that owns it. The stream ends with ctx.
func (n *Network) Join(ctx context.Context, key message.ConversationKey) (Stream, error) {
	early, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	p, err := n.owner(early, key)
	if err != nil {
		return nil, err
	}
	s := &stream{of: p, place: placeOf(key)}
	ask, err := json.Marshal(s.place)
	if err != nil {
		return nil, err
	}
	if s.link, err = n.dial(ctx, p, watch, ask); err != nil {
		return nil, fmt.Errorf("reach host %s at %s: %w", p.Host, p.Address, err)
	}
	if s.past, err = readEvents(s.in, s.place, maxPastEvents); err != nil {
		s.Close()
		return nil, fmt.Errorf("watch at host %s: %w", p.Host, err)
	}
	return s, nil
}

// Past implements Stream.
func (s *stream) Past() []message.Event { return s.past }

// Next implements Stream.
func (s *stream) Next() (e *message.Event, lost bool, err error) {
	if err := s.SetReadDeadline(time.Now().Add(silence)); err != nil {
		return nil, false, err
	}
	f, err := readFrame(s.in)
	switch {
	case err != nil:
		return nil, false, err
	case f.kind == event:
		e, err := readEvent(f.body, s.place)
		return &e, false, err
	case f.kind == gap, f.kind == beat:
		return nil, f.kind == gap, nil
	case f.kind == refusal:
		return nil, false, fmt.Errorf("host %s says: %q", s.of.Host, f.body)
	}
	return nil, false, fmt.Errorf("%w: a frame of kind %q comes among events", errProtocol, byte(f.kind))
}

// Owned implements Stream.
func (s *stream) Owned(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	p, err := s.n.owner(ctx, s.place.key())
	return err == nil && p == s.of
}

// Tell shows events to the watchers at the host that owns a conversation.
func (n *Network) Tell(ctx context.Context, key message.ConversationKey, events []message.Event) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	p, err := n.owner(ctx, key)
	if err != nil {
		return err
	}
	ask, err := json.Marshal(placeOf(key))
	if err != nil {
		return err
	}
	l, err := n.dial(ctx, p, tell, ask)
	if err != nil {
		return err
	}
	defer l.Close()
	var out []byte
	for _, e := range events {
		out = appendEvent(out, e)
	}
	if _, err := l.Write(appendFrame(out, ok, nil)); err != nil {
		return err
	}
	return l.answered()
}

// answered reads the answer to what ends with it.
func (l *link) answered() error {
	f, err := readFrame(l.in)
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("it has hung up")
	case err != nil:
		return err
	case f.kind == refusal:
		return fmt.Errorf("it says: %q", f.body)
	case f.kind != ok:
		return fmt.Errorf("%w: the answer is a frame of kind %q", errProtocol, byte(f.kind))
	}
	return nil
}
