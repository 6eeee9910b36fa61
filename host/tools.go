package host

import (
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/plugin/instances"
)

// setTools brings the running providers in line with a configuration.
func (h *Host) setTools(old, next *config.Config) {
	instances.Set(h.plugins, h.log, h.tools, old.Tools, next.Tools)
	h.tools.Started(next)
}
