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
	// ExplainLast returns the trace of the latest message of a channel's conversation; an empty name stands for any.
	ExplainLast(ctx context.Context, channel, conversation string) (explain.Trace, error)
}

// TurnTrace is a trace with the lines in which flynn explain and the page show it.
type TurnTrace struct {
	explain.Trace
	Title []string       `json:"title"`
	Lines []explain.Line `json:"lines"`
}

func (s *Server) explain(ctx context.Context, r *http.Request) (any, error) {
	id := r.PathValue("id")
	if !validName(id) {
		return nil, badRequest("name a turn by its id, or a message as message/N")
	}
	trace, err := s.backend.Explains.Explain(ctx, id)
	return turnTrace(trace), err
}

// explainLast explains the latest message of the channel and conversation in the query. Without them it is the latest of all.
func (s *Server) explainLast(ctx context.Context, r *http.Request) (any, error) {
	channel, conversation := r.URL.Query().Get("channel"), r.URL.Query().Get("conversation")
	if channel != "" && !validName(channel) || conversation != "" && !validName(conversation) {
		return nil, badRequest("channel and conversation are names, or are left out")
	}
	trace, err := s.backend.Explains.ExplainLast(ctx, channel, conversation)
	return turnTrace(trace), err
}

func turnTrace(t explain.Trace) TurnTrace {
	title, lines := t.Lines()
	return TurnTrace{t, title, lines}
}
