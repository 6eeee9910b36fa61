package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
)

// configuration puts flynn.toml in force.
type configuration struct{ gateway.Reloader }

// reloadTimeout is longer than the host gives to the stages of one reload.
const reloadTimeout = 2 * time.Minute

func (c configuration) register(r *registrar) {
	add(r, Operation{ID: "reload", Method: http.MethodPost, Path: "/configuration/reload", Subject: "Configuration", Least: owner, Timeout: reloadTimeout,
		Summary: "Put flynn.toml in force; if it has an error the one before stays, and the answer says why"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) (gateway.Reloaded, error) {
			generation, err := c.Reload(ctx)
			if err != nil {
				return gateway.Reloaded{Generation: generation, Refused: err.Error()}, nil
			}
			return gateway.Reloaded{Generation: generation}, nil
		})
}
