package host

import (
	"cmp"
	"context"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/plugin/service"
)

// openServices prepares what plugins may ask the host for, and opens the door for their webhooks if the configuration has one.
func (h *Host) openServices(c *config.Config) (err error) {
	publicURL := ""
	if c.Gateway.HooksListen != "" {
		if h.hooks, err = gateway.NewHooks(c.Gateway.HooksListen, h.log); err != nil {
			return err
		}
		h.hooks.Idle = &h.idle
		publicURL = cmp.Or(strings.TrimRight(c.Gateway.PublicURL, "/"), "http://"+h.hooks.Addr().String())
	}
	h.services, err = service.New(service.Config{
		Values: h.store, Media: h.files.Media(), PublicURL: publicURL, Log: h.log,
		Count: h.metrics.pluginEvents, OnCall: h.metrics.serviceCall, OnHook: h.metrics.webhook,
	})
	return err
}

// runHooks takes webhooks until ctx ends.
func (h *Host) runHooks(ctx context.Context) error {
	if h.hooks == nil {
		return nil
	}
	return h.hooks.Run(ctx, h.services.Hooks())
}
