// Package preview shows the port of a program in a sandbox to a person, through the gateway.
//
// Start with Service: OpenPreview (open.go) makes a preview, and ServeHTTP (serve.go) serves it. Each preview is an origin of its own (origin.go), so that what
// the program serves, which is hostile until a person has looked, shares neither storage nor cookies with the console or with another preview.
// A link that is good once signs a browser in, for that origin alone. proxy.go passes requests on. A preview ends with its time, its sandbox,
// the sign-in of the person who opened it, the kill switch and the host; watch.go looks after that.
//
// The package opens no listener, and does not look into what is carried. Previews are in memory alone.
package preview

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"net"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Bounds of previews.
const (
	Usual      = time.Hour
	most       = 32 // open previews
	mostBy     = 8  // of one person
	mostTokens = 8  // links, and signed-in browsers, of one preview; a further one ends the oldest
	linkValid  = 10 * time.Minute
)

// Config configures a Service.
type Config struct {
	Sandboxes Sandboxes
	Halted    Halted
	People    People
	Audit     Audit
	// Origin is where previews are shown, as "https://*.preview.example.com"; empty is a name below localhost on the gateway's port.
	Origin string
	Log    *slog.Logger
}

// Sandboxes are those that live.
type Sandboxes interface {
	Live() []sandbox.Living
	// Box returns the one whose live container has that id.
	Box(id string) (Box, error)
}

// Box is a live sandbox; see sandbox.Session.
type Box interface {
	Dial(ctx context.Context, port uint16) (net.Conn, error)
	Listening(ctx context.Context) (ports []uint16, more bool, err error)
}

// Halted is the kill switch.
type Halted interface {
	// Why says why nothing runs; "" if the switch is off.
	Why() string
	// Thrown is closed once the switch is on.
	Thrown() <-chan struct{}
}

// People knows who a caller is as of now.
type People interface {
	// Again returns the caller with his present role; ok is false if he is signed out or not admitted any more.
	Again(c gateway.Caller) (now gateway.Caller, ok bool)
}

// Audit keeps what people did.
type Audit interface {
	AddAudit(ctx context.Context, rows []consent.AuditRow) error
}

// Service keeps the open previews. Its methods are safe for concurrent use.
type Service struct {
	Config
	base   base
	opened chan struct{} // capacity 1: there is a new one

	mu   sync.Mutex
	open map[string]*preview // by label
}

var (
	_ gateway.Previews       = (*Service)(nil)
	_ gateway.PreviewOrigins = (*Service)(nil)
)

// New returns a Service, which works once Listen is called and Run runs.
func New(c Config) (*Service, error) {
	b, err := parseOrigin(c.Origin)
	return &Service{Config: c, base: b, opened: make(chan struct{}, 1), open: map[string]*preview{}}, err
}

// preview is one open preview.
type preview struct {
	gateway.Preview
	label string // of its host
	by    gateway.Caller
	proxy *httputil.ReverseProxy
	// alone is set if what it serves may load nothing from other origins.
	alone bool
	slots chan struct{} // holds a token for each request

	ctx   context.Context // ends with it
	close func()

	mu              sync.Mutex
	links, browsers []token // oldest first
}

// token is the digest of a secret that a browser shows.
type token struct {
	digest  [sha256.Size]byte
	expires time.Time
}

// issue adds a new secret to a list and returns it.
func issue(list *[]token, expires time.Time) string {
	secret := rand.Text()
	*list = append(*list, token{sha256.Sum256([]byte(secret)), expires})
	if len(*list) > mostTokens {
		*list = slices.Delete(*list, 0, 1)
	}
	return secret
}

// find returns the place of a secret in a list, or -1. A digest is no secret, so it is compared as it is.
func find(list []token, secret string) int {
	digest := sha256.Sum256([]byte(secret))
	return slices.IndexFunc(list, func(t token) bool { return t.digest == digest && time.Now().Before(t.expires) })
}

var (
	errNoSandbox = store.NotFound("there is no such live sandbox; flynn sandbox list shows all")
	errNoPreview = store.NotFound("there is no such preview; it may have ended")
)

func (s *Service) forget(p *preview) (was bool) {
	s.mu.Lock()
	_, was = s.open[p.label]
	delete(s.open, p.label)
	s.mu.Unlock()
	p.close()
	return was
}

// end closes a preview and records by whom, if it was a person, and why.
func (s *Service) end(ctx context.Context, p *preview, by message.SenderKey, why string) {
	if !s.forget(p) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	if err := s.record(ctx, p, by, consent.AuditPreviewEnd, why); err != nil {
		s.Log.Warn("the end of a preview is not recorded", "preview", p.ID, "error", err)
	}
}

const auditTimeout = 5 * time.Second

func (s *Service) record(ctx context.Context, p *preview, by message.SenderKey, kind, detail string) error {
	row := consent.AuditRow{At: time.Now(), Kind: kind, Subject: string(p.Session), Actor: string(by), Agent: p.Session.Agent(), Detail: detail}
	return s.Audit.AddAudit(ctx, []consent.AuditRow{row})
}

// link returns a preview with a new link.
func (s *Service) link(p *preview) gateway.PreviewLink {
	p.mu.Lock()
	defer p.mu.Unlock()
	code := issue(&p.links, time.Now().Add(linkValid))
	return gateway.PreviewLink{Preview: p.Preview, Link: p.Address + strings.TrimPrefix(signInPath, "/") + "?code=" + code}
}

// of returns an open preview by its id, if it is one that a caller may have: his own, or any for an owner.
func (s *Service) of(id string, by gateway.Caller) (*preview, error) {
	for _, p := range s.all() {
		if p.ID == id && (by.Owner() || p.By == by.Sender) {
			return p, nil
		}
	}
	return nil, errNoPreview
}

func (s *Service) all() (list []*preview) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.open {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *preview) int { return cmp.Or(b.Opened.Compare(a.Opened), cmp.Compare(a.ID, b.ID)) })
	return list
}

// LinkPreview implements gateway.Previews.
func (s *Service) LinkPreview(_ context.Context, id string, by gateway.Caller) (gateway.PreviewLink, error) {
	p, err := s.of(id, by)
	if err != nil || s.over(p) != "" {
		return gateway.PreviewLink{}, errNoPreview
	}
	return s.link(p), nil
}

// Previews implements gateway.Previews.
func (s *Service) Previews(_ context.Context, by gateway.Caller) (list []gateway.Preview, err error) {
	for _, p := range s.all() {
		if (by.Owner() || p.By == by.Sender) && s.over(p) == "" {
			list = append(list, p.Preview)
		}
	}
	return list, nil
}

// ClosePreview implements gateway.Previews.
func (s *Service) ClosePreview(ctx context.Context, id string, by gateway.Caller) error {
	p, err := s.of(id, by)
	if err == nil {
		s.end(ctx, p, by.Sender, "it was closed")
	}
	return err
}
