// Package egress is the host's side of the proxy that programs in a sandbox without a network find on loopback: it reads their requests,
// checks them against an allowlist, and carries out those that are allowed.
//
// Start with Proxy.Serve, which handles one connection. A request is parsed strictly (request.go), so that the next program on the way
// cannot interpret it differently. Its name is resolved once, all its addresses must be public, and exactly those are dialled (reach.go),
// except for the host of a Credential with an Address. Plain HTTP is forwarded one request per connection, rebuilt from its parsed form
// (forward.go). A tunnel carries only TLS, whose ClientHello must name the requested host (tunnel.go, hello.go); the proxy cannot see the
// methods inside. For a host with a Credential the tunnel ends in the proxy (terminate.go, authority.go), which adds the secret to the
// request inside and forwards it.
//
// The proxy follows no redirects, reuses no connections and caches nothing. Each request's own host decides whether it gets a credential,
// so no answer can redirect a credential.
package egress

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/flynnhost/flynn/host/internal/netaddr"
)

// Config configures a Proxy.
type Config struct {
	// Rules are the allowed targets; if empty, nothing is allowed.
	Rules netaddr.Rules
	// Decided is called for each decision; those about one connection come in order. It must not block.
	Decided func(Decision)
	// Network resolves and dials; nil means the host's network. Its Dial is never given an address that is not public.
	Network Network
	// MaxHeader bounds the header of a request and of a response, in bytes; 32 KiB by default.
	MaxHeader int
	// MaxBody bounds the bytes that one connection carries in each direction; 4 GiB by default.
	MaxBody int64
	// IdleTimeout ends a connection without traffic; 1 minute by default.
	IdleTimeout time.Duration
	// GreetTimeout bounds the wait for a complete request, and for the ClientHello after it; 20 s by default.
	GreetTimeout time.Duration
	// DialTimeout bounds name resolution, and the attempts to connect to all addresses together; 15 s by default.
	DialTimeout time.Duration
	// Credentials are added to requests to their hosts; programs must trust Authority for those hosts. Without Authority, tunnels are not
	// terminated.
	Credentials []Credential
	Authority   *Authority
	// Roots verify the hosts of credentials; nil means the system's roots.
	Roots *x509.CertPool
	// Limit bounds the bytes that all connections carry together, in both directions; 0 means no limit.
	Limit int64
	// Ended is called when an allowed request is over, with the ID that Decided got and the bytes carried. It must not block.
	Ended func(Decision)
	Log   *slog.Logger
}

// Decision records how a request was decided.
type Decision struct {
	ID      string // unique
	Time    time.Time
	Method  string // "" if the request could not be parsed, like Host
	Host    string
	Port    uint16
	Addrs   []netip.Addr // the resolved addresses; empty if the name was not resolved
	Allowed bool
	Reason  string // why it was refused, or that the host is at its configured address
	// Credential is set if the request was given a credential.
	Credential bool
	// Up and Down count the bytes carried from and to the program; Ended is when the request was over.
	Up, Down int64
	Ended    time.Time
}

// Proxy serves the connections of one sandbox. It is safe for concurrent use.
type Proxy struct {
	config  Config
	pace    *rate.Limiter
	carried atomic.Int64 // bytes, of all connections
}

// connectionsPerSecond limits the rate of a sandbox's connections, with bursts of connectionBurst, so that no program can flood name
// servers or the log.
const (
	connectionsPerSecond = 50
	connectionBurst      = 200
)

// New returns a Proxy.
func New(c Config) *Proxy {
	if c.Network == nil {
		c.Network = host{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.MaxHeader = cmp.Or(c.MaxHeader, 32<<10)
	c.MaxBody = cmp.Or(c.MaxBody, 4<<30)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, time.Minute)
	c.GreetTimeout = cmp.Or(c.GreetTimeout, 20*time.Second)
	c.DialTimeout = cmp.Or(c.DialTimeout, 15*time.Second)
	return &Proxy{config: c, pace: rate.NewLimiter(connectionsPerSecond, connectionBurst)}
}

// Serve handles one connection and closes it. It returns when ctx ends, when either side is gone, or after IdleTimeout without traffic;
// none of its goroutines remain then.
func (p *Proxy) Serve(ctx context.Context, conn io.ReadWriteCloser) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	if p.pace.Wait(ctx) != nil {
		return
	}
	e := newExchange(p, conn, cancel)
	defer e.watch.Stop()
	if err := e.run(ctx); err != nil && ctx.Err() == nil {
		p.config.Log.Debug("connection through the sandbox's proxy ended early", "error", err)
	}
	if d := e.granted; d.Allowed && p.config.Ended != nil {
		d.Up, d.Down, d.Ended = e.up.Load(), e.down.Load(), time.Now()
		p.config.Ended(d)
	}
}

// errSpent ends a connection when Limit is reached.
var errSpent = errors.New("more bytes than this sandbox may carry")

// spent reports whether Limit is reached.
func (p *Proxy) spent() bool { return p.config.Limit > 0 && p.carried.Load() >= p.config.Limit }

// spend counts bytes and reports whether they are within Limit.
func (p *Proxy) spend(n int64) bool {
	return p.carried.Add(n) <= p.config.Limit || p.config.Limit <= 0
}

// refusal is an error that the program gets as an answer with a status.
type refusal struct {
	status int
	err    error
}

func (r refusal) Error() string { return r.err.Error() }
func (r refusal) Unwrap() error { return r.err }

func refuse(status int, err error) error { return refusal{status, err} }

// statusOf returns the status of the answer for an error.
func statusOf(err error) int {
	var r refusal
	if errors.As(err, &r) {
		return r.status
	}
	return 400
}

// decide reports a decision to the log and to Decided.
func (p *Proxy) decide(d Decision) {
	d.Time = time.Now()
	if d.ID == "" {
		d.ID = rand.Text()
	}
	level := slog.LevelInfo
	if !d.Allowed {
		level = slog.LevelWarn
	}
	p.config.Log.Log(context.Background(), level, "sandbox asks for a connection",
		"allowed", d.Allowed, "method", d.Method, "host", d.Host, "port", d.Port, "addrs", d.Addrs, "reason", d.Reason)
	if p.config.Decided != nil {
		p.config.Decided(d)
	}
}
