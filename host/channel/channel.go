// Package channel is the durable edge of Flynn: the inbox side that accepts
// messages of every channel and the outbox side that delivers replies.
//
// Start with Inbox.Accept and Outbox.Run. A message is acknowledged to its channel only after
// it is committed; a reply is committed before it is sent. Plugin processes are the business of package
// plugin, answering that of package agent.
package channel

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Sender delivers replies to one channel instance.
type Sender interface {
	// Send delivers r or says what it knows. An error is a failure of the way to the channel; its outcome is unknown.
	Send(ctx context.Context, r message.Reply) (Result, error)
	// Recognises tells whether the channel remembers idempotency keys for good, across its own restarts: then
	// a repeated send is harmless.
	Recognises() bool
}

// Reconciler is a Sender that can look up what became of a send.
type Reconciler interface {
	Reconcile(ctx context.Context, r message.Reply) (Result, error)
}

// Result is what became of a send.
type Result struct {
	Outcome     message.Outcome
	PlatformIDs []string
	// RetryAfter is how long the channel asks to wait, with NotSent.
	RetryAfter time.Duration
}
