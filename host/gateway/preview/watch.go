package preview

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/clock"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
)

// lookPause is how soon what is open under a preview ends after the preview's reason has; each request asks by itself.
const lookPause = 2 * time.Second

// Run ends previews until ctx ends, and then all of them.
func (s *Service) Run(ctx context.Context) error {
	for {
		if len(s.all()) == 0 {
			select {
			case <-s.opened:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		thrown := s.Halted.Thrown()
		if s.Halted.Why() != "" {
			thrown = nil
		}
		select {
		case <-time.After(lookPause):
		case <-thrown:
		case <-ctx.Done():
			s.each(func(p *preview) string { return "the host has stopped" })
			return ctx.Err()
		}
		s.each(s.over)
	}
}

// each ends the previews for which why returns a reason.
func (s *Service) each(why func(*preview) string) {
	for _, p := range s.all() {
		if reason := why(p); reason != "" {
			s.end(context.Background(), p, "", reason)
		}
	}
}

// over returns why a preview has ended, or "".
func (s *Service) over(p *preview) string {
	if !clock.Within(p.Opened, p.Expires, time.Now()) {
		return "its time was over"
	}
	if s.Halted.Why() != "" {
		return "the host was halted"
	}
	if now, ok := s.People.Again(p.by); !ok || !may(now, p.Session) {
		return "the person who opened it is signed out, or may not any more"
	}
	if _, err := s.Sandboxes.Box(p.Sandbox); err != nil {
		return "its sandbox has ended"
	}
	return ""
}

// portsTimeout bounds asking all sandboxes for their ports.
const portsTimeout = 3 * time.Second

// Ports implements gateway.Previews. Sandboxes that nobody uses are not woken for it: no program of theirs runs.
func (s *Service) Ports(ctx context.Context, scope string, by gateway.Caller) ([]gateway.SandboxPorts, error) {
	var live []sandbox.Living
	for _, l := range s.Sandboxes.Live() {
		if may(by, l.Session) && (scope == "" || l.Session.Scope() == scope) && l.Idle.IsZero() {
			live = append(live, l)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, portsTimeout)
	defer cancel()
	out := make([]gateway.SandboxPorts, len(live))
	var asking sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i, l := range live {
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			out[i] = s.portsOf(ctx, l)
		})
	}
	asking.Wait()
	return out, nil
}

func (s *Service) portsOf(ctx context.Context, l sandbox.Living) gateway.SandboxPorts {
	p := gateway.SandboxPorts{Sandbox: l.ID, Session: l.Session, Agent: l.Session.Agent(), Name: l.Name, Ports: []int{}}
	box, err := s.Sandboxes.Box(l.ID)
	var ports []uint16
	if err == nil {
		ports, p.More, err = box.Listening(ctx)
	}
	switch {
	case errors.Is(err, sandbox.ErrNoLoopback):
		p.Refused = err.Error()
	case err != nil:
		p.Refused = "it does not say: " + strings.TrimPrefix(err.Error(), machine.ErrUnavailable.Error()+": ")
	}
	for _, port := range ports {
		p.Ports = append(p.Ports, int(port))
	}
	return p
}
