package gateway

import (
	"context"
	"net/http"
	"time"
)

// rollbackTimeout bounds a rollback, which may have to compile a module.
const rollbackTimeout = 25 * time.Second

// Rollback asks for an older module of a policy.
type Rollback struct {
	// To is the beginning of the module's SHA-256; "" is the module before the one in force.
	To string `json:"to,omitempty"`
	// Clear stops overriding the policy file instead.
	Clear bool `json:"clear,omitempty"`
}

// Policies rolls policies back.
type Policies interface {
	// RollbackPolicy puts an older module in force: store.ErrNotFound if there is no such policy or module, store.ErrConflict if there
	// is nothing to do.
	RollbackPolicy(ctx context.Context, policy string, r Rollback) (PolicyStatus, error)
}

func (s *Server) rollbackPolicy(ctx context.Context, r *http.Request, body Rollback) (any, error) {
	name := r.PathValue("name")
	if !validName(name) || len(body.To) > maxName || body.Clear && body.To != "" {
		return nil, badRequest(`name a policy, and send {"to":"DIGEST"}, {} or {"clear":true}`)
	}
	return s.backend.Policies.RollbackPolicy(ctx, name, body)
}
