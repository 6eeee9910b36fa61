package gateway

import (
	"context"
	"net/http"
	"time"
)

// rollbackTimeout bounds a roll-back, which may have to compile a module.
const rollbackTimeout = 25 * time.Second

// Rollback asks for an older module of a policy.
type Rollback struct {
	// To is the beginning of the module's SHA-256; "" is the one before that in force.
	To string `json:"to,omitempty"`
	// Clear stops overriding the policy file, instead.
	Clear bool `json:"clear,omitempty"`
}

// Policies rolls policies back.
type Policies interface {
	// RollbackPolicy goes back to an older module: store.ErrNotFound if there is no such policy or module, store.ErrConflict if there
	// is nothing to do.
	RollbackPolicy(ctx context.Context, policy string, r Rollback) (PolicyStatus, error)
}

func (s *Server) rollbackPolicy(w http.ResponseWriter, r *http.Request) {
	var body Rollback
	if !readBody(w, r, &body) {
		return
	}
	name := r.PathValue("name")
	if !validName(name) || len(body.To) > maxName || body.Clear && body.To != "" {
		writeError(w, http.StatusBadRequest, CodeBadRequest, `name a policy, and send {"to":"DIGEST"}, {} or {"clear":true}`)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), rollbackTimeout)
	defer cancel()
	status, err := s.backend.Policies.RollbackPolicy(ctx, name, body)
	s.answer(w, status, err)
}
