package host

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
)

// proofWall bounds what a new module of a policy is put through before it comes into force.
const proofWall = 30 * time.Second

// provePolicy asks a new module of a policy its own cases.
func (h *Host) provePolicy(ctx context.Context, c policy.Candidate) error {
	ctx, cancel := context.WithTimeout(ctx, proofWall)
	defer cancel()
	return author.Prove(ctx, c.Source.Path, c.Wasm, h.wasmCache)
}
