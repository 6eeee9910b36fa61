package plugin

import (
	"context"
	"path/filepath"
	"slices"
	"sync"

	"github.com/flynnhost/flynn/host/plugin/service"
)

// servicesSocket is the socket of the services in the run folder; its name is shorter than those of go-plugin.
const servicesSocket = "host"

// offerServices serves the host services for plugins; end waits until the last call has ended.
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
			h.log.Error("the services for plugins have ended", "error", err)
		}
	}()
	return func() { cancel(); <-done }, nil
}

// grant is a process's access to the services. It ends with the process, even if that ends before the access begins.
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

// admit lets the process call the services that its manifest asks for, until it is gone.
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

// knownServices reports whether names are known services, each named once.
func knownServices(names []string) bool {
	for i, name := range names {
		if !slices.Contains(service.Names(), name) || slices.Contains(names[:i], name) {
			return false
		}
	}
	return true
}
