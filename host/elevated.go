package host

import (
	"context"

	"github.com/flynnhost/flynn/host/gateway"
)

// elevations are the banners of the web page.
func (b backend) elevations(ctx context.Context) []gateway.ElevationStatus {
	list, err := b.h.elevated.All(ctx)
	if err != nil {
		b.h.log.Warn("list elevated mode", "error", err)
	}
	out := []gateway.ElevationStatus{}
	for _, e := range list {
		out = append(out, gateway.ElevationStatus{Conversation: e.Conversation, State: e.State, Sender: e.Sender, Until: e.Until})
	}
	return out
}
