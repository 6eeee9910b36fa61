package gateway

import (
	"context"
	"net/http"
	"time"
)

// Halter is the kill switch.
type Halter interface {
	// Halt throws the kill switch, with why, or takes it back. Doing either twice changes nothing.
	Halt(ctx context.Context, on bool, reason, by string) error
}

// HaltStatus says that nothing runs, and why.
type HaltStatus struct {
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
}

// maxReason bounds why the switch was thrown, in bytes.
const maxReason = 500

// halt answers POST /api/v1/halt (on) and POST /api/v1/resume.
func (s *Server) halt(on bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Reason string `json:"reason,omitempty"`
		}
		if !readBody(w, r, &body) {
			return
		}
		if len(body.Reason) > maxReason || !on && body.Reason != "" {
			writeError(w, http.StatusBadRequest, CodeBadRequest, `send {"reason":"at most 500 bytes"} to halt, {} to resume`)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), backendTimeout)
		defer cancel()
		err := s.backend.Halter.Halt(ctx, on, body.Reason, ownerKey(ChannelWeb))
		s.answer(w, map[string]bool{"halted": on}, err)
	}
}
