package host

import (
	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
)

// show shows a turn to those who wait for it over a channel. The doors of this machine watch its events instead.
func (h *Host) show(r message.Reply) agent.View {
	if route.Door(r.Channel) != route.DoorChannel {
		return nil
	}
	if v := h.live.Show(r); v != nil {
		return v
	}
	return nil
}

// streams reports whether the configuration in force wants answers on a channel shown while they are made.
func (h *Host) streams(channel string) bool { return h.current.Load().config.Channels[channel].Stream }
