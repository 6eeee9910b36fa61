package gatewaytest

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
)

// Usage implements gateway.Usages.
func (b *Backend) Usage(_ context.Context, by usage.Key, _ message.SenderKey, since time.Time) ([]usage.Sum, error) {
	if b.Spent == nil {
		return nil, nil
	}
	return b.Spent(by, since)
}

// Held implements gateway.Usages.
func (b *Backend) Held(context.Context) ([]gateway.Held, error) { return b.Holds, nil }
