package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Access pairs senders.
type Access interface {
	// Access lists the open requests, and then the paired senders.
	Access(ctx context.Context) ([]AccessEntry, error)
	// DecidePairing approves or denies the request of a code: store.ErrNotFound if there is none, store.ErrConflict if it has another
	// answer, an error with LockedOut after too many wrong codes.
	DecidePairing(ctx context.Context, code string, approve bool, by string) (AccessEntry, error)
	// RevokePairing ends a pairing at once: store.ErrNotFound if there is none.
	RevokePairing(ctx context.Context, sender message.SenderKey, by string) error
	// SetPairingRole makes a paired sender a guest or a member: store.ErrNotFound if the sender is not paired.
	SetPairingRole(ctx context.Context, sender message.SenderKey, role, by string) error
}

// AccessEntry is a pairing request, or a pairing.
type AccessEntry struct {
	Sender message.SenderKey `json:"sender"`         // "instance:platform-id"
	Name   string            `json:"name,omitempty"` // display name, chosen by the sender
	State  string            `json:"state"`          // "open", "paired", "denied"
	Role   string            `json:"role,omitempty"` // that the pairing gives
	// Configured is the entry of flynn.toml about the sender: a role that overrides the pairing's, or "blocked".
	Configured string `json:"configured,omitempty"`
	// Identity reports how well the platform proves that the id is the sender's: "proved", "claimed", "none", "accepted" or "unknown".
	Identity string    `json:"identity"`
	Code     string    `json:"code,omitempty"` // of an open request
	Asked    time.Time `json:"asked,omitzero"`
	Expires  time.Time `json:"expires,omitzero"` // of the code
	By       string    `json:"by,omitempty"`     // who decided last
	Decided  time.Time `json:"decided,omitzero"`
}

// maxSender bounds a sender key, in bytes.
const maxSender = 1 << 10

func (s *Server) listAccess(ctx context.Context, _ *http.Request) (any, error) {
	list, err := s.backend.Access.Access(ctx)
	return orEmpty(list), err
}

type pairingDecision struct {
	Code    string `json:"code"`
	Approve *bool  `json:"approve"`
}

func (s *Server) decidePairing(ctx context.Context, _ *http.Request, body pairingDecision) (any, error) {
	if body.Approve == nil || !validName(body.Code) {
		return nil, badRequest(`send {"code":"ABCD-EFGH","approve":true} or false`)
	}
	return s.backend.Access.DecidePairing(ctx, body.Code, *body.Approve, ownerKey(ChannelWeb))
}

type pairingChange struct {
	Sender message.SenderKey `json:"sender"`
	Role   string            `json:"role,omitempty"`
}

func (s *Server) revokePairing(ctx context.Context, _ *http.Request, body pairingChange) (any, error) {
	if body.Sender == "" || len(body.Sender) > maxSender || body.Role != "" {
		return nil, badRequest(`send {"sender":"instance:platform-id"}`)
	}
	return map[string]bool{"revoked": true}, s.backend.Access.RevokePairing(ctx, body.Sender, ownerKey(ChannelWeb))
}

func (s *Server) setPairingRole(ctx context.Context, _ *http.Request, body pairingChange) (any, error) {
	if body.Sender == "" || len(body.Sender) > maxSender || body.Role != "guest" && body.Role != "member" {
		return nil, badRequest(`send {"sender":"instance:platform-id","role":"guest"} or "member"; owners are set in flynn.toml`)
	}
	return map[string]string{"role": body.Role}, s.backend.Access.SetPairingRole(ctx, body.Sender, body.Role, ownerKey(ChannelWeb))
}
