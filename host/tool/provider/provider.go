// Package provider turns the offers of a plugin of kind tools into tools, under the rules of the operator.
//
// Start with Set: it has the providers of a host, and makes the registry of a configuration of Flynn's own tools and theirs. A Provider is the
// plugin.Handler of one instance, keeps the list of tools as the plugin changes it, and calls them. Provider.Tools gives the list as tool.Tool
// values under the Rules of a configuration; they stay valid after the list has changed and say then that they are gone (tool.Revocable). The
// package starts no process and decides nothing about a call: package plugin and tool.Enforcer do.
//
// The package does not trust the texts of a plugin. Descriptions and schemas are bounded and stripped of invisible characters; the operator
// sets effect, approval, profiles and time limits. A tool that becomes another one under its old name is detected by its
// digest, across restarts of the host, too: see Journal.
package provider

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/kind"
	toolkind "github.com/flynnhost/flynn/host/plugin/kind/tools"
)

// Client calls a running plugin; *toolkind.Client implements it.
type Client interface {
	List(ctx context.Context) ([]toolkind.Spec, error)
	Watch(ctx context.Context, changed func()) error
	Call(ctx context.Context, call toolkind.Call, progress func(p []byte)) (toolkind.Result, error)
}

// Config configures a Provider.
type Config struct {
	Name    string // of the instance
	Journal *Journal
	Log     *slog.Logger
	// Changed is called after each change of the list. It may be called from any goroutine, one at a time.
	Changed func()
	// Settle is the least time between two readings of a list that keeps changing. Default: 1 s
	Settle time.Duration
}

// Provider is one instance of a plugin with tools. Safe for concurrent use.
type Provider struct {
	cfg   Config
	calls chan struct{} // those under way

	mu     sync.Mutex
	client Client  // nil while the plugin is not running
	uses   int     // calls of Serve so far: at an upgrade the new process is used before the old one has ended, and the latest counts
	offers []offer // as listed last, by name
	left   []string
	listed bool // since the process began
}

var _ plugin.Handler = (*Provider)(nil)

// Bounds of one provider.
const (
	maxCalls = 16        // at a time
	maxTools = 128       // that are offered
	maxWords = 256 << 10 // bytes of descriptions and schemas together, which every model call carries
)

// New returns a provider that is not running yet.
func New(c Config) *Provider {
	if c.Settle <= 0 {
		c.Settle = time.Second
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	return &Provider{cfg: c, calls: make(chan struct{}, maxCalls)}
}

// Serve implements plugin.Handler.
func (p *Provider) Serve(ctx context.Context, c *kind.Conn) error {
	return p.serve(ctx, toolkind.NewClient(c))
}

// serve keeps the list up to date while the plugin runs.
func (p *Provider) serve(ctx context.Context, c Client) error {
	p.mu.Lock()
	p.uses++
	use := p.uses
	p.mu.Unlock()
	if err := p.read(ctx, c, use); err != nil {
		return err
	}
	defer p.lost(use)
	changes := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	defer watching.Wait()
	failed := make(chan error, 1)
	watching.Go(func() {
		failed <- c.Watch(ctx, func() {
			select {
			case changes <- struct{}{}:
			default: // one reading serves all that came before it
			}
		})
	})
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			if ctx.Err() != nil || status.Code(errors.Unwrap(err)) == codes.Unimplemented || err == nil {
				<-ctx.Done() // a list that never changes
				return nil
			}
			return err
		case <-changes:
			if err := p.read(ctx, c, use); err != nil && ctx.Err() == nil {
				return err
			}
			select {
			case <-time.After(p.cfg.Settle):
			case <-ctx.Done():
			}
		}
	}
}

// read reads the list of tools.
func (p *Provider) read(ctx context.Context, c Client, use int) error {
	specs, err := c.List(ctx)
	if err != nil {
		return err
	}
	offers, left := newOffers(specs)
	p.mu.Lock()
	if use != p.uses {
		p.mu.Unlock()
		return nil
	}
	same := p.client != nil && slices.EqualFunc(offers, p.offers, func(a, b offer) bool { return a.digest == b.digest }) && slices.Equal(left, p.left)
	p.client, p.offers, p.left, p.listed = c, offers, left, true
	p.mu.Unlock()
	if same {
		return nil
	}
	for _, l := range left {
		p.cfg.Log.Warn("left out a tool", "provider", p.cfg.Name, "why", l)
	}
	p.record(offers)
	p.cfg.Changed()
	return nil
}

// Listed reports whether the plugin has listed its tools since this process began.
func (p *Provider) Listed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listed
}

// record records the descriptions of the tools and logs changes.
func (p *Provider) record(offers []offer) {
	if p.cfg.Journal == nil {
		return
	}
	changes, err := p.cfg.Journal.Record(p.cfg.Name, offers)
	if err != nil {
		p.cfg.Log.Error("record the tools", "provider", p.cfg.Name, "error", err)
	}
	for _, c := range changes {
		p.cfg.Log.Warn("tool changed its description", "provider", p.cfg.Name, "tool", c.Tool, "was", c.Was, "now", c.Now)
	}
}

func (p *Provider) lost(use int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if use == p.uses {
		p.client = nil
	}
}

// revoked returns why a tool that was offered as o cannot be called now, or "".
func (p *Provider) revoked(o offer) string {
	_, err := p.claim(o)
	if err != nil {
		return err.Error()
	}
	return ""
}

// claim returns the plugin if it still offers o.
func (p *Provider) claim(o offer) (Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == nil {
		return nil, fmt.Errorf("the provider %s is not running now; do without its tools, or try again later", p.cfg.Name)
	}
	i, found := slices.BinarySearchFunc(p.offers, o.spec.Name, func(o offer, name string) int { return strings.Compare(o.spec.Name, name) })
	switch {
	case !found:
		return nil, fmt.Errorf("the provider %s no longer offers the tool %s", p.cfg.Name, o.spec.Name)
	case p.offers[i].digest != o.digest:
		return nil, fmt.Errorf("the provider %s has changed what its tool %s is since this turn began; it is offered anew in the next one",
			p.cfg.Name, o.spec.Name)
	}
	return p.client, nil
}
