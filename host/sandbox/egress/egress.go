// Package egress is the host's end of the proxy that programs in a sandbox without a network find on loopback: it reads what
// they ask for, decides by an allowlist, and reaches for them what it allows.
//
// Start with Proxy.Serve, which has one connection from its first byte to its last. A request is read strictly (request.go),
// so that there is nothing in it that the next program on the way could read differently; its name is resolved once, all
// its addresses must be public, and exactly those are dialled (reach.go); the host of a Credential
// with an Address is the exception. Plain HTTP is forwarded one request a connection, rebuilt from what was understood (forward.go). A tunnel carries TLS only, whose greeting must name the host that was
// asked for (tunnel.go, hello.go); what is inside is not seen, so neither are the methods. Where a host has a Credential
// the tunnel ends here instead (terminate.go, authority.go), and the request inside is forwarded with the secret in it.
//
// The proxy follows no redirects, keeps no connections and caches nothing. Whether a request gets a credential is decided
// for each by its own host, so that no answer can lead one elsewhere.
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

// Config is what a Proxy needs.
type Config struct {
	// Rules are what may be reached; nothing, if empty.
	Rules netaddr.Rules
	// Decided is called for each decision, in the order in which they are taken on one connection. It must not wait.
	Decided func(Decision)
	// Network resolves and dials; the host's own if nil. Its Dial is never given an address that is not public.
	Network Network
	// MaxHeader bounds the head of a request and of a response, in bytes. 32 KiB
	MaxHeader int
	// MaxBody bounds what one connection carries each way, in bytes. 4 GiB
	MaxBody int64
	// IdleTimeout ends a connection on which nothing moves. 1 minute
	IdleTimeout time.Duration
	// GreetTimeout bounds the wait for a complete request, and for the TLS greeting after it. 20 s
	GreetTimeout time.Duration
	// DialTimeout bounds name resolution, and the attempt on all addresses together. 15 s
	DialTimeout time.Duration
	// Credentials go into requests to their hosts, and Authority is what programs trust in place of those hosts'. Without
	// it tunnels are not ended here.
	Credentials []Credential
	Authority   *Authority
	// Roots verify the hosts of credentials; the system's own if nil.
	Roots *x509.CertPool
	// Limit bounds what all connections carry together, both ways, in bytes; none if it is 0.
	Limit int64
	// Ended is called when an allowed request is over, with the ID that Decided got and the bytes carried. It must not wait.
	Ended func(Decision)
	Log   *slog.Logger
}

// Decision says what became of a request.
type Decision struct {
	ID      string // unique
	Time    time.Time
	Method  string // "" if the request could not be read, as Host
	Host    string
	Port    uint16
	Addrs   []netip.Addr // pinned; empty if the name was not resolved
	Allowed bool
	Reason  string // of a refusal, or where the host is as configured
	// Credential says that the request was given one.
	Credential bool
	// Up and Down are the bytes carried from the program and to it, and Ended when that was over.
	Up, Down int64
	Ended    time.Time
}

// Proxy serves the connections of one sandbox. It is safe for concurrent use.
type Proxy struct {
	config  Config
	pace    *rate.Limiter
	carried atomic.Int64 // bytes, by all connections
}

// connectionsPerSecond bounds how fast a sandbox gets connections in the long run, and connectionBurst at once: so no
// program can flood name servers or the log.
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

// Serve answers one connection and closes it. It returns when ctx ends, when either side is gone, or when nothing has moved
// for too long; its goroutines are gone by then.
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

// errSpent ends a connection when all together have carried what they may.
var errSpent = errors.New("more bytes than this sandbox may carry")

// spent reports whether nothing more may be carried.
func (p *Proxy) spent() bool { return p.config.Limit > 0 && p.carried.Load() >= p.config.Limit }

// spend counts bytes and says whether they may be carried.
func (p *Proxy) spend(n int64) bool {
	return p.carried.Add(n) <= p.config.Limit || p.config.Limit <= 0
}

// refusal is an error that is the program's to read, with the status of the answer.
type refusal struct {
	status int
	err    error
}

func (r refusal) Error() string { return r.err.Error() }
func (r refusal) Unwrap() error { return r.err }

func refuse(status int, err error) error { return refusal{status, err} }

// statusOf returns the answer's status for an error.
func statusOf(err error) int {
	var r refusal
	if errors.As(err, &r) {
		return r.status
	}
	return 400
}

// decide tells the log and the callback.
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
