package gateway

import (
	"net/http"
	"strings"
)

// ClientAPIs are the APIs for clients such as bots and editors, with their own protocols and tokens.
type ClientAPIs struct {
	// Client returns the name of the client with a token. It takes the same time for every token, right or wrong.
	Client func(token string) (name string, ok bool)
	// Owner is the client that the gateway's own token stands for.
	Owner  string
	OpenAI ClientHandler // below /v1/
	MCP    ClientHandler // at /mcp
}

// ClientHandler answers a client whose token was checked.
type ClientHandler interface {
	ServeClient(w http.ResponseWriter, r *http.Request, client string)
}

// Refuser is a ClientHandler whose protocol has its own form of refusals.
type Refuser interface {
	Refuse(w http.ResponseWriter, status int, code, text string)
}

// routeClients adds the paths of the client APIs.
func (s *Server) routeClients(mux *http.ServeMux) {
	if s.clients == nil {
		return
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		mux.Handle(method+" /v1/", s.client(s.clients.OpenAI))
		mux.Handle(method+" /mcp", s.client(s.clients.MCP))
	}
	mux.Handle("DELETE /mcp", s.client(s.clients.MCP))
}

// client serves requests with the gateway's token or that of a client. A client's token is good for nothing else.
func (s *Server) client(next ClientHandler) http.Handler {
	refuse := writeError
	if r, ok := next.(Refuser); ok {
		refuse = r.Refuse
	}
	own := s.forHolder(refuse, func(w http.ResponseWriter, r *http.Request) { next.ServeClient(w, r, s.clients.Owner) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") && given != "" {
			if name, ok := s.clients.Client(given); ok {
				next.ServeClient(w, r, name)
				return
			}
		}
		own.ServeHTTP(w, r)
	})
}
