package preview

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// may reports whether a caller may see what programs in a session's sandbox serve: an owner all, others those of their private chats.
func may(c gateway.Caller, session message.WorkspaceKey) bool {
	if c.Owner() {
		return true
	}
	scope := session.Scope()
	if id, is := strings.CutPrefix(scope, message.ConsoleChannel+":"); is {
		owner, ok := message.ConsoleOwner(id)
		return ok && owner == c.Sender
	}
	return c.Sender.ID() != "" && !c.Sender.Unverified() && scope == message.SenderScope(c.Sender)
}

// OpenPreview implements gateway.Previews. The beginning is recorded first: without a record there is no preview.
func (s *Service) OpenPreview(ctx context.Context, n gateway.NewPreview, by gateway.Caller) (gateway.PreviewLink, error) {
	var none gateway.PreviewLink
	live := s.Sandboxes.Live()
	at := slices.IndexFunc(live, func(l sandbox.Living) bool { return l.ID == n.Sandbox && may(by, l.Session) })
	if at < 0 {
		return none, errNoSandbox
	}
	if why := s.Halted.Why(); why != "" {
		return none, store.Conflict("no preview is opened while the host is halted: " + why)
	}
	if err := s.reach(ctx, n); err != nil {
		return none, err
	}
	p := s.newPreview(live[at], n, by)
	if err := s.add(p); err != nil {
		return none, err
	}
	if err := s.record(ctx, p, p.By, consent.AuditPreview, fmt.Sprintf("port %d of container %.12s is shown until %s", p.Port, p.Sandbox, p.Expires.UTC().Format(time.RFC3339))); err != nil {
		s.forget(p)
		return none, fmt.Errorf("record the preview: %w", err)
	}
	select {
	case s.opened <- struct{}{}:
	default:
	}
	return s.link(p), nil
}

// reach connects once, so that a wrong port is an error here and not in the browser.
func (s *Service) reach(ctx context.Context, n gateway.NewPreview) error {
	box, err := s.Sandboxes.Box(n.Sandbox)
	if err != nil {
		return errNoSandbox
	}
	conn, err := box.Dial(ctx, uint16(n.Port))
	switch {
	case errors.Is(err, sandbox.ErrNoLoopback):
		return store.Conflict("no preview: " + err.Error() + `; set network = "none", "allowlist" or "bridge"`)
	case errors.Is(err, machine.ErrNotFound):
		return store.Conflict(fmt.Sprintf("nothing listens on port %d in this sandbox: start the server first, on 127.0.0.1 or on all addresses", n.Port))
	case errors.Is(err, machine.ErrOutside):
		return store.Conflict(fmt.Sprintf("port %d belongs to Flynn itself", n.Port))
	case err != nil:
		return store.Conflict(fmt.Sprintf("port %d cannot be reached: %s", n.Port, err))
	}
	return conn.Close()
}

func (s *Service) newPreview(l sandbox.Living, n gateway.NewPreview, by gateway.Caller) *preview {
	now := time.Now()
	label := "p-" + strings.ToLower(rand.Text())
	p := &preview{
		Preview: gateway.Preview{
			ID: strings.ToLower(rand.Text()[:12]), Sandbox: l.ID, Session: l.Session, Port: n.Port, By: by.Sender, Opened: now,
			Expires: now.Add(cmp.Or(time.Duration(n.Minutes)*time.Minute, Usual)), Address: s.base.address(label),
		},
		label: label, by: by, alone: l.Spec.Network != "bridge", slots: make(chan struct{}, maxRequests),
	}
	p.ctx, p.close = context.WithCancel(context.Background())
	p.proxy = s.newProxy(p)
	return p
}

// add registers a preview.
func (s *Service) add(p *preview) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := 0
	for _, other := range s.open {
		if other.By == p.By {
			own++
		}
	}
	if len(s.open) >= most || own >= mostBy {
		return store.Conflict(fmt.Sprintf("%d previews are open, %d of them yours: close one first", len(s.open), own))
	}
	s.open[p.label] = p
	return nil
}
