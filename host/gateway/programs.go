package gateway

import (
	"net/http"
	"strings"
)

// Programs are the doors for programs, which speak protocols of their own and have tokens of their own.
type Programs struct {
	// Client names who has a token other than the gateway's own. It takes as long for a wrong one as for any.
	Client func(token string) (name string, ok bool)
	// Owner is the client that the gateway's own token stands for.
	Owner  string
	OpenAI ProgramHandler // below /v1/
	MCP    ProgramHandler // at /mcp
}

// ProgramHandler answers a client whose token was checked.
type ProgramHandler interface {
	ServeClient(w http.ResponseWriter, r *http.Request, client string)
}

// Refuser is a ProgramHandler whose clients read refusals in a form of their own.
type Refuser interface {
	Refuse(w http.ResponseWriter, status int, code, text string)
}

// routePrograms adds their addresses.
func (s *Server) routePrograms(mux *http.ServeMux) {
	if s.programs == nil {
		return
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		mux.Handle(method+" /v1/", s.client(s.programs.OpenAI))
		mux.Handle(method+" /mcp", s.client(s.programs.MCP))
	}
	mux.Handle("DELETE /mcp", s.client(s.programs.MCP))
}

// client lets a request through that carries the gateway's token or that of a client. A client's token opens nothing else.
func (s *Server) client(next ProgramHandler) http.Handler {
	refuse := writeError
	if r, ok := next.(Refuser); ok {
		refuse = r.Refuse
	}
	own := s.authorizedOr(refuse, func(w http.ResponseWriter, r *http.Request) { next.ServeClient(w, r, s.programs.Owner) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") && given != "" {
			if name, ok := s.programs.Client(given); ok {
				next.ServeClient(w, r, name)
				return
			}
		}
		own.ServeHTTP(w, r)
	})
}
