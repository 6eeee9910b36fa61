package plugin

import (
	"context"
	"path/filepath"
	"slices"
	"sync"

	"github.com/flynnhost/flynn/host/plugin/service"
)

// servicesSocket is in the run folder; it is shorter than what go-plugin puts there.
const servicesSocket = "host"

// offerServices serves what plugins may ask for; end waits until the last call has ended.
func (h *Host) offerServices() (end func(), err error) {
	s := h.config.Services
	if s == nil {
		return func() {}, nil
	}
	if err := s.Listen(filepath.Join(h.config.RunDir, servicesSocket)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			h.log.Error("the services for plugins ended", "error", err)
		}
	}()
	return func() { cancel(); <-done }, nil
}

// grant is a process's way to the services, which ends with the process, even if that ends before it begins.
type grant struct {
	mu     sync.Mutex
	revoke func()
	over   bool
}

func (g *grant) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	if g.revoke != nil {
		g.revoke()
	}
}

// admit lets the process call what its manifest asks for, until it is gone.
func (r *running) admit() (endpoint, token string) {
	s := r.host.config.Services
	r.grant.mu.Lock()
	defer r.grant.mu.Unlock()
	if s == nil || r.grant.over {
		return "", ""
	}
	endpoint, token, r.grant.revoke = s.Admit(r.instance.Name, r.manifest.Permissions.Host, int64(r.manifest.Permissions.WebhookBody))
	return endpoint, token
}

// knownServices reports whether a manifest asks only for what there is, each once.
func knownServices(names []string) bool {
	for i, name := range names {
		if !slices.Contains(service.Names(), name) || slices.Contains(names[:i], name) {
			return false
		}
	}
	return true
}
