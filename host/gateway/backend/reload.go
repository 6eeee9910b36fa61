package backend

import (
	"context"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
)

// Reload reloads the configuration.
type Reload struct{ Holder *config.Holder }

var _ gateway.Reloader = Reload{}

// Reload implements gateway.Reloader. The reload continues when the client has gone: half of one is none.
func (r Reload) Reload(ctx context.Context) (uint64, error) {
	err := r.Holder.Reload(context.WithoutCancel(ctx))
	return r.Holder.Current().Generation, err
}
