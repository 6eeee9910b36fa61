package gateway

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/observe/explain"
)

// Explains explains what the host did with a message.
type Explains interface {
	// Explain returns the trace of a turn, or of a message by its store.MessageID; store.ErrNotFound if there is none.
	Explain(ctx context.Context, id string) (explain.Trace, error)
	// ExplainLast returns that of the latest message of a channel's conversation; empty is any.
	ExplainLast(ctx context.Context, channel, conversation string) (explain.Trace, error)
}

// TurnTrace is a trace with the lines in which flynn explain and the page show it.
type TurnTrace struct {
	explain.Trace
	Title []string       `json:"title"`
	Lines []explain.Line `json:"lines"`
}

func (s *Server) explain(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !validName(id) {
		writeError(w, http.StatusBadRequest, CodeBadRequest, "name a turn by its id, or a message as message/N")
		return
	}
	s.showTrace(w, r, func(ctx context.Context) (explain.Trace, error) { return s.backend.Explains.Explain(ctx, id) })
}

// explainLast is about the latest message of channel and conversation in the query; without one it is of any.
func (s *Server) explainLast(w http.ResponseWriter, r *http.Request) {
	channel, conversation := r.URL.Query().Get("channel"), r.URL.Query().Get("conversation")
	if channel != "" && !validName(channel) || conversation != "" && !validName(conversation) {
		writeError(w, http.StatusBadRequest, CodeBadRequest, "channel and conversation are names, or are left out")
		return
	}
	s.showTrace(w, r, func(ctx context.Context) (explain.Trace, error) {
		return s.backend.Explains.ExplainLast(ctx, channel, conversation)
	})
}

func (s *Server) showTrace(w http.ResponseWriter, r *http.Request, read func(context.Context) (explain.Trace, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), backendTimeout)
	defer cancel()
	trace, err := read(ctx)
	title, lines := trace.Lines()
	s.answer(w, TurnTrace{trace, title, lines}, err)
}
