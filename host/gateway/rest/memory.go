package rest

import (
	"context"
	"net/http"

	notes "github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/gateway"
)

// memory shows what agents remember.
type memory struct{ gateway.Memory }

func (m memory) register(r *registrar) {
	type choice struct{ Body gateway.Forget }
	add(r, Operation{ID: "forget", Method: http.MethodPost, Path: "/memory/forget", Subject: "Memory", Least: owner, Timeout: deleteTimeout, Summary: "Delete notes; answers with them"},
		func(ctx context.Context, _ gateway.Caller, in *choice) ([]notes.Note, error) {
			if len(in.Body.Queries()) == 0 {
				return nil, gateway.BadRequest(`choose notes by {"ids":[N]}, "person", "agent", "key" or "shared"`)
			}
			return orEmpty(m.Forget(ctx, in.Body))
		})
}
