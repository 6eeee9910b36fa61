// Package signins defines what is stored about sign-ins at the console: the codes of links that were handed out, and who is signed in.
//
// Start with SignIn. Package signin hands codes out and takes them, and package sqlite stores the rows; this package does neither. Neither
// codes nor tokens are stored, only their digests.
package signins

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Code is a link that was handed out and not used yet.
type Code struct {
	Digest  string // SHA-256 of the code, in hex
	Sender  message.SenderKey
	Event   string // the message that asked for it, "instance:event-id"
	Asked   time.Time
	Expires time.Time
}

// SignIn is one browser in which a sender is signed in.
type SignIn struct {
	ID     string // time-ordered
	Digest string // SHA-256 of the token, in hex
	Sender message.SenderKey
	Began  time.Time
	Used   time.Time // last, to the hour
}

// Store stores codes and sign-ins.
type Store interface {
	// PutCode adds a code, and deletes the codes that its sender got by other messages and those that have expired when it was asked for.
	PutCode(ctx context.Context, c Code) error
	// UseCode deletes a code and adds the sign-in that it gives, for the sender of the code, which it returns. It returns
	// store.ErrNotFound, and adds nothing, if there is no such code, or if it is not valid at the time of the sign-in.
	UseCode(ctx context.Context, digest string, s SignIn) (SignIn, error)
	// DropCodes deletes the codes of a sender.
	DropCodes(ctx context.Context, sender message.SenderKey) error
	// TouchSignIn sets when a sign-in was last used. It is no error if there is none.
	TouchSignIn(ctx context.Context, id string, used time.Time) error
	// DropSignIn deletes a sign-in. It is no error if there is none.
	DropSignIn(ctx context.Context, id string) error
	// ListSignIns returns all sign-ins, oldest first.
	ListSignIns(ctx context.Context) ([]SignIn, error)
}
