package rest

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/gateway"
)

// status reports the state of the host.
type status struct{ gateway.Reporter }

func (s status) register(r *registrar) {
	add(r, Operation{ID: "get-status", Method: http.MethodGet, Path: "/status", Subject: "Host", Least: owner, Summary: "The state of the host"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) (gateway.Status, error) {
			return s.Status(ctx), nil
		})
}
