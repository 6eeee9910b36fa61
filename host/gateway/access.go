package gateway

import (
	"context"
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
	// State is "open", "paired" or "denied", or, for persons without a pairing, "listed" in flynn.toml or "answered" before.
	State string `json:"state"`
	Role  string `json:"role,omitempty"` // that the pairing gives
	// Effective is the role that the sender has now; empty for one who is not answered.
	Effective string `json:"effective,omitempty"`
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
