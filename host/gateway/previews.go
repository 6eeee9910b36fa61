package gateway

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Previews show ports on which programs in sandboxes listen to people. An owner may open those of every sandbox, others those of sandboxes
// of their own conversations. Their errors are store.ErrNotFound for a sandbox or a preview that is not there or is somebody else's.
type Previews interface {
	// Ports returns the live sandboxes of a scope, or of all if it is empty, with the ports that programs listen on.
	Ports(ctx context.Context, scope string, by Caller) ([]SandboxPorts, error)
	// OpenPreview opens a preview: store.ErrConflict if there cannot be one.
	OpenPreview(ctx context.Context, n NewPreview, by Caller) (PreviewLink, error)
	// LinkPreview makes another link of a preview.
	LinkPreview(ctx context.Context, id string, by Caller) (PreviewLink, error)
	// Previews returns the open ones, latest first.
	Previews(ctx context.Context, by Caller) ([]Preview, error)
	ClosePreview(ctx context.Context, id string, by Caller) error
}

// PreviewOrigins serves the origins of previews. It does everything about their requests itself.
type PreviewOrigins interface {
	http.Handler
	// Listen is told once where the gateway listens.
	Listen(addr net.Addr)
	// Serves reports whether a Host is of a preview, open or not.
	Serves(host string) bool
}

// SandboxPorts are the ports that programs in a live sandbox listen on.
type SandboxPorts struct {
	Sandbox string               `json:"sandbox" doc:"The id of the live sandbox"`
	Session message.WorkspaceKey `json:"session" doc:"Whose it is"`
	Agent   string               `json:"agent"`
	Name    string               `json:"name" doc:"The sandbox of the configuration; empty is [sandbox]"`
	Ports   []int                `json:"ports" doc:"Of the loopback interface inside, lowest first"`
	More    bool                 `json:"more,omitempty" doc:"There are further ports"`
	Refused string               `json:"refused,omitempty" doc:"Why none can be previewed"`
}

// NewPreview asks for a preview.
type NewPreview struct {
	Sandbox string `json:"sandbox" minLength:"1" maxLength:"128" doc:"The id of a live sandbox"`
	Port    int    `json:"port" minimum:"1" maximum:"65535" doc:"The TCP port inside"`
	Minutes int    `json:"minutes,omitempty" minimum:"0" maximum:"1440" doc:"How long it stays open; 0 is 60"`
}

// Preview is a port of a sandbox that is shown.
type Preview struct {
	ID      string               `json:"id"`
	Sandbox string               `json:"sandbox"`
	Session message.WorkspaceKey `json:"session"`
	Port    int                  `json:"port"`
	By      message.SenderKey    `json:"by" doc:"Who opened it"`
	Opened  time.Time            `json:"opened"`
	Expires time.Time            `json:"expires"`
	Address string               `json:"address" doc:"Its origin, for browsers that have used a link"`
}

// PreviewLink is a preview with a link that signs one browser in.
type PreviewLink struct {
	Preview
	Link string `json:"link" doc:"Good once, for ten minutes"`
}

// withPreviews passes requests for the origins of previews to their server, before anything of the console's sees them.
func (s *Server) withPreviews(console http.Handler) http.Handler {
	if s.previews == nil {
		return console
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.previews.Serves(r.Host) {
			console.ServeHTTP(w, r)
			return
		}
		s.sockets.Add(1) // also of WebSockets, for which the server does not wait
		defer s.sockets.Done()
		if scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
			if _, ours := s.caller(given); ours {
				r.Header.Del("Authorization") // a program in a sandbox must not see it
			}
		}
		s.previews.ServeHTTP(w, r)
	})
}
