package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Access lets strangers in.
type Access interface {
	// Access lists the requests that are open, and then the senders who are paired.
	Access(ctx context.Context) ([]AccessEntry, error)
	// DecidePairing approves or denies the request of a code: store.ErrNotFound if there is none, store.ErrConflict if it has another
	// answer, an error with LockedOut after too many wrong codes.
	DecidePairing(ctx context.Context, code string, approve bool, by string) (AccessEntry, error)
	// RevokePairing ends a pairing at once: store.ErrNotFound if there is none.
	RevokePairing(ctx context.Context, sender, by string) error
	// SetPairingRole makes a paired sender a guest or a member: store.ErrNotFound if he is not paired.
	SetPairingRole(ctx context.Context, sender, role, by string) error
}

// AccessEntry is a request to be let in, or a sender who was.
type AccessEntry struct {
	Sender string `json:"sender"`         // "instance:platform-id"
	Name   string `json:"name,omitempty"` // what he calls himself
	State  string `json:"state"`          // "open", "paired", "denied"
	Role   string `json:"role,omitempty"` // that the pairing gives
	// Configured is what flynn.toml says of him besides: a role that comes before the pairing's, or "blocked".
	Configured string `json:"configured,omitempty"`
	// Identity says whether the channel proves that the sender is who the id says: "proved", "claimed", "none", "accepted" or "unknown".
	Identity string    `json:"identity"`
	Code     string    `json:"code,omitempty"` // of an open request
	Asked    time.Time `json:"asked,omitzero"`
	Expires  time.Time `json:"expires,omitzero"` // of the code
	By       string    `json:"by,omitempty"`     // who decided last
	Decided  time.Time `json:"decided,omitzero"`
}

// maxSender bounds a sender key, in bytes.
const maxSender = 1 << 10

// access wraps a handler of the backend's pairings.
func (s *Server) access(use func(context.Context, Access, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), backendTimeout)
		defer cancel()
		w.Header().Set("Cache-Control", "no-store")
		use(ctx, s.backend.Access, w, r)
	}
}

func (s *Server) listAccess(ctx context.Context, a Access, w http.ResponseWriter, _ *http.Request) {
	list, err := a.Access(ctx)
	s.answer(w, orEmpty(list), err)
}

func (s *Server) decidePairing(ctx context.Context, a Access, w http.ResponseWriter, r *http.Request) {
	var body struct {
		Code    string `json:"code"`
		Approve *bool  `json:"approve"`
	}
	if !readBody(w, r, &body) {
		return
	}
	if body.Approve == nil || !validName(body.Code) {
		writeError(w, http.StatusBadRequest, CodeBadRequest, `say {"code":"ABCD-EFGH","approve":true} or false`)
		return
	}
	entry, err := a.DecidePairing(ctx, body.Code, *body.Approve, ownerKey(ChannelWeb))
	var locked interface{ LockedOut() bool }
	if errors.As(err, &locked) {
		writeError(w, http.StatusTooManyRequests, CodeLimited, err.Error())
		return
	}
	s.answer(w, entry, err)
}

func (s *Server) revokePairing(ctx context.Context, a Access, w http.ResponseWriter, r *http.Request) {
	var body struct {
		Sender string `json:"sender"`
	}
	if !readBody(w, r, &body) {
		return
	}
	if body.Sender == "" || len(body.Sender) > maxSender {
		writeError(w, http.StatusBadRequest, CodeBadRequest, `say {"sender":"instance:platform-id"}`)
		return
	}
	err := a.RevokePairing(ctx, body.Sender, ownerKey(ChannelWeb))
	s.answer(w, map[string]bool{"revoked": true}, err)
}

func (s *Server) setPairingRole(ctx context.Context, a Access, w http.ResponseWriter, r *http.Request) {
	var body struct {
		Sender string `json:"sender"`
		Role   string `json:"role"`
	}
	if !readBody(w, r, &body) {
		return
	}
	if body.Sender == "" || len(body.Sender) > maxSender || body.Role != "guest" && body.Role != "member" {
		writeError(w, http.StatusBadRequest, CodeBadRequest, `say {"sender":"instance:platform-id","role":"guest"} or "member"; owners stand in flynn.toml`)
		return
	}
	err := a.SetPairingRole(ctx, body.Sender, body.Role, ownerKey(ChannelWeb))
	s.answer(w, map[string]string{"role": body.Role}, err)
}
