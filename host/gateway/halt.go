package gateway

import (
	"context"
	"net/http"
	"time"
)

// Halter is the kill switch.
type Halter interface {
	// Halt turns the kill switch on, with a reason, or off. Doing either twice changes nothing.
	Halt(ctx context.Context, on bool, reason, by string) error
}

// HaltStatus is the kill switch while it is on.
type HaltStatus struct {
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
}

// maxReason bounds the reason of a halt, in bytes.
const maxReason = 500

type haltReason struct {
	Reason string `json:"reason,omitempty"`
}

// halt handles POST /api/v1/halt (on) and POST /api/v1/resume.
func (s *Server) halt(on bool) http.HandlerFunc {
	return post(s, backendTimeout, func(ctx context.Context, _ *http.Request, body haltReason) (any, error) {
		if len(body.Reason) > maxReason || !on && body.Reason != "" {
			return nil, badRequest(`send {"reason":"at most 500 bytes"} to halt, {} to resume`)
		}
		return map[string]bool{"halted": on}, s.backend.Halter.Halt(ctx, on, body.Reason, ownerKey(ChannelWeb))
	})
}
