// Package channel is the durable edge of Flynn: the inbox side that accepts
// messages of every channel and the outbox side that delivers replies.
//
// Start with Inbox.Accept and Outbox.Run; Live shows what is not ready yet. A message is acknowledged to its channel only after
// it is committed; a reply is committed before it is sent. Plugin processes are the business of package
// plugin, answering that of package agent.
package channel

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Sender delivers replies to one channel instance.
type Sender interface {
	// Send delivers r or says what it knows. An error is a failure of the way to the channel; its outcome is unknown.
	Send(ctx context.Context, r message.Reply) (Result, error)
	// Recognises reports whether the channel remembers idempotency keys for good, across its own restarts: then
	// a repeated send is harmless.
	Recognises() bool
}

// Reconciler is a Sender that can look up what became of a send.
type Reconciler interface {
	Reconcile(ctx context.Context, r message.Reply) (Result, error)
}

// Abilities say what the channel behind a Sender can do besides sending text, and its limits.
type Abilities struct {
	MaxText       int           // longest text of one message in code points; 0: no known limit
	MaxAttachment int64         // largest attachment in bytes; 0: none are taken
	Edit          bool          // it is a Drafter
	EditWindow    time.Duration // how long after sending a message can be edited; 0: for ever
	EditInterval  time.Duration // least time between two edits of one message
	Delete        bool          // Drafter.Delete works
	Typing        bool          // it is a Typist
}

// Able is a Sender that tells its abilities; one that does not has none and no limits.
type Able interface{ Abilities() Abilities }

// Drafter is a Sender that can show a message before it is complete.
type Drafter interface {
	// SendDraft is Send for a first text that edits will complete.
	SendDraft(ctx context.Context, r message.Reply) (Result, error)
	// Edit replaces the text of a message. The error only explains what Edited says.
	Edit(ctx context.Context, e Edit) (Edited, error)
	Delete(ctx context.Context, where message.Conversation, id string) error
}

// Typist is a Sender that can show that an answer is being written, for as long as ttl.
type Typist interface {
	Typing(ctx context.Context, where message.Conversation, on bool, ttl time.Duration) error
}

// Uploader is a Sender that takes media ahead of a send.
type Uploader interface {
	// Upload returns the handle of a file. ErrRefused says that the channel will never take it.
	Upload(ctx context.Context, a message.Attachment, body io.Reader) (handle string, err error)
}

// ErrRefused is in the error of an upload that is not to be tried again.
var ErrRefused = errors.New("the channel does not take it")

// Edit is a new text for a sent message.
type Edit struct {
	Conversation message.Conversation
	MessageID    string
	Revision     uint64 // rises with each edit of a message, over restarts as well
	Text         string
	Final        bool // no further edit follows
	Buttons      []message.Button
}

// Edited is what became of an edit.
type Edited struct {
	Applied bool
	// Stale says that the channel has applied a later edit, or a final one.
	Stale bool
	// RetryAfter is how long the channel asks to wait before the next edit.
	RetryAfter time.Duration
	// Never says that the message cannot be edited, now or later.
	Never bool
}

// Result is what became of a send.
type Result struct {
	Outcome     message.Outcome
	PlatformIDs []string
	// RetryAfter is how long the channel asks to wait, with NotSent.
	RetryAfter time.Duration
	// Resume, with NotSent or Unknown, says that the beginning was delivered, as PlatformIDs; the outcome is that of the rest. It
	// goes back in message.Reply.Resume.
	Resume string
}
