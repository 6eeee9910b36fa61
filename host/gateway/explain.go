package gateway

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/explain"
)

// Explains is a Backend that tells what became of a message.
type Explains interface {
	// Explain returns the trace of a turn, or of a message by its store.MessageID; store.ErrNotFound if there is none.
	Explain(ctx context.Context, id string) (explain.Trace, error)
}

func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	explains, ok := s.backend.(Explains)
	id := r.PathValue("id")
	if !ok || !validName(id) {
		writeError(w, http.StatusBadRequest, CodeBadRequest, "name a turn by its id, or a message as message/N")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), backendTimeout)
	defer cancel()
	trace, err := explains.Explain(ctx, id)
	s.answer(w, trace, err)
}
