package host

import "github.com/flynnhost/flynn/host/config"

// setTools brings the running providers in line with a configuration.
func (h *Host) setTools(old, next *config.Config) {
	var before map[string]config.ToolProvider
	if old != nil {
		before = old.Tools
	}
	lineup[config.ToolProvider]{
		host: h, enabled: h.tools.Enabled, same: h.tools.Same, ended: h.tools.Ended,
		start: func(name string, c config.ToolProvider) error {
			i, serves, err := h.tools.Instance(name, c)
			if err != nil {
				return err
			}
			return h.plugins.Add(i, serves)
		},
	}.set(before, next.Tools)
	h.tools.Started(next)
}
