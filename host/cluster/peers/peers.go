// Package peers is the way between hosts that share a store: over it a host watches a conversation that another one owns, while the answer is
// written.
//
// Start with Network. Every connection is TLS 1.3 with the certificates of both ends. A host makes its own when it starts, keeps the key in
// memory, and tells the store the key's fingerprint; each end accepts only the fingerprint of a host that is alive in the store, in its
// current incarnation. frame.go has what is sent, listen.go the end of the owner, dial.go that of the watcher, probe.go whether each host is
// reached.
//
// A connection only saves time. One that is cut, or a watcher that is too slow, loses nothing, because the store has all that was said.
package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/selfsigned"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

const (
	// handshake bounds the time from a connection's start until it is known what it is for, and until that has begun.
	handshake = 5 * time.Second
	// beatEvery is how often the owner says that it is there, and silence how long it may say nothing before its connection is cut.
	beatEvery = 300 * time.Millisecond
	silence   = time.Second
	// writeTimeout bounds the writing of what has gathered for a watcher.
	writeTimeout = 5 * time.Second
	// maxHalf bounds the accepted connections that have not said yet what they are for, and maxOfHost those of one host.
	maxHalf   = 32
	maxOfHost = 1024
	// protocol names what is spoken. Hosts of releases that speak differently do not understand each other, and read the store.
	protocol = "flynn-peers/1"
	// certName is the name in each certificate, which means nothing.
	certName = "host"
)

// Store knows the hosts and what they own.
type Store interface {
	Peers(ctx context.Context) ([]store.Peer, error)
	Owner(ctx context.Context, key store.OwnerKey) (store.Owner, error)
}

// Ownership says which conversations this host works for; *cluster.Member implements it.
type Ownership interface {
	Holds(key store.OwnerKey) bool
}

// Views has what happens in the conversations that this host works for; *watch.Hub implements it.
type Views interface {
	// Local watches a conversation, without what other hosts tell of it; see watch.Hub.
	Local(channel, id string) (told []message.Event, events <-chan message.Event, stop func())
	// Publish does not block.
	Publish(e message.Event)
}

// Config configures a Network.
type Config struct {
	// Listen is the address to listen on; without one there is no way to and from other hosts. Advertise is what others dial, if it differs.
	Listen, Advertise string
	Store             Store
	Log               *slog.Logger
}

// Network is this host's end of the ways to all others. It is safe for concurrent use.
type Network struct {
	cfg  Config
	net  net.Listener // nil without Config.Listen
	cert tls.Certificate

	mu      sync.Mutex
	half    map[net.Conn]bool   // accepted, and not known yet
	proven  map[net.Conn]string // by the fingerprint of the other end
	reaches map[string]reach    // by host
}

// New makes the host's key, and listens. Nothing is accepted before Run.
func New(c Config) (*Network, error) {
	n := &Network{cfg: c, half: map[net.Conn]bool{}, proven: map[net.Conn]string{}, reaches: map[string]reach{}}
	if c.Listen == "" {
		return n, nil
	}
	var err error
	if n.cert, err = selfsigned.New("Flynn host", certName, x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth); err != nil {
		return nil, err
	}
	if n.net, err = net.Listen("tcp", c.Listen); err != nil {
		return nil, fmt.Errorf("[cluster] listen: %w: write an address of this machine with a free port, which other hosts reach", err)
	}
	return n, nil
}

// On reports whether there is a way to and from other hosts at all.
func (n *Network) On() bool { return n.net != nil }

// Listens returns where it listens, whatever it advertises.
func (n *Network) Listens() string { return n.net.Addr().String() }

// Self returns what other hosts dial, and the fingerprint of this host's key; both are empty without a way.
func (n *Network) Self() (address, fingerprint string) {
	switch {
	case n.net == nil:
		return "", ""
	case n.cfg.Advertise != "":
		address = n.cfg.Advertise
	default:
		address = n.net.Addr().String()
	}
	return address, selfsigned.Fingerprint(n.cert.Leaf)
}

// Run accepts connections, and looks whether the other hosts are reached, until ctx ends.
func (n *Network) Run(ctx context.Context, o Ownership, v Views) error {
	if n.net == nil {
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { n.probe(ctx) })
	defer context.AfterFunc(ctx, n.Close)()
	a := acceptor{Network: n, own: o, views: v}
	return a.serve(ctx, &work)
}

// Close stops listening, and cuts all connections. A nil Network has none.
func (n *Network) Close() {
	if n == nil || n.net == nil {
		return
	}
	n.net.Close() // a second time it returns an error without meaning
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.half {
		c.Close()
	}
	for c := range n.proven {
		c.Close()
	}
}

// prove notes that the other end of a connection has a key, until forget is called. It returns false if its host has too many.
func (n *Network) prove(c net.Conn, fingerprint string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.half, c)
	count := 0
	for _, f := range n.proven {
		if f == fingerprint {
			count++
		}
	}
	if count >= 2*maxOfHost { // those that this host has made are among them
		return false
	}
	n.proven[c] = fingerprint
	return true
}

func (n *Network) forget(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.half, c)
	delete(n.proven, c)
}

// settings returns the settings of TLS for either end. The certificate of the other end is checked by its fingerprint.
func (n *Network) settings() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{n.cert}, MinVersion: tls.VersionTLS13, NextProtos: []string{protocol},
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
	}
}
