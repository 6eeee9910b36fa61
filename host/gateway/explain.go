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

// TurnTrace is a trace with the lines in which flynn explain and the page show it.
type TurnTrace struct {
	explain.Trace
	Title []string       `json:"title"`
	Lines []explain.Line `json:"lines"`
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
	title, lines := trace.Lines()
	s.answer(w, TurnTrace{trace, title, lines}, err)
}
