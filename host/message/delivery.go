package message

import (
	"errors"
	"time"
)

// Capabilities are the abilities of a channel instance besides sending text, and its limits, on which the plugin's manifest and its
// process agree.
type Capabilities struct {
	MaxTextRunes       int           // longest text of one message in code points; 0: no known limit
	MaxAttachmentBytes int64         // 0: no attachments
	Edit               bool          // sent messages can be edited
	EditWindow         time.Duration // how long after sending; 0: no limit
	MinEditInterval    time.Duration // shortest time between two edits of one message
	Typing             bool
	Delete             bool
	React              bool
	Fetch              bool
	Upload             bool
	Resolve            bool
	Reconcile          bool // the channel can look up the outcome of a send
	Idempotent         bool // recognises a repeated key, even after its own restart, so that repeating a send is harmless
	Exclusive          bool // one connection per credential
	Threads            bool
	Markdown           bool // takes Markdown; otherwise text is sent as it is
	Buttons            bool // shows buttons
	// Senders is what the running instance proves about sender ids under its settings.
	Senders SenderProof
}

// Takes reports whether the channel accepts a file.
func (c Capabilities) Takes(a Attachment) bool { return c.Upload && a.Size <= c.MaxAttachmentBytes }

// Outcome is the result of a send.
type Outcome string

// The outcomes of a send.
const (
	Sent      Outcome = "sent"
	Duplicate Outcome = "duplicate" // the channel had delivered this key before
	NotSent   Outcome = "not_sent"  // certainly not delivered; safe to try again
	Unknown   Outcome = "unknown"   // may or may not have been delivered
	Refused   Outcome = "refused"   // certainly not delivered, and the platform will never accept it
)

// Delivery is what a channel knows about the outcome of a send.
type Delivery struct {
	Outcome     Outcome
	PlatformIDs []string // of the messages that it became
	// RetryAfter is how long the channel asks to wait, with NotSent.
	RetryAfter time.Duration
	// Resume, with NotSent or Unknown, means that the beginning was delivered, as PlatformIDs; the outcome is that of the rest. It is
	// passed back in Reply.Resume.
	Resume string
}

// Arrived reports whether the channel certainly has the reply.
func (d Delivery) Arrived() bool { return d.Outcome == Sent || d.Outcome == Duplicate }

// Revision is a new text for a sent message.
type Revision struct {
	Conversation Conversation
	MessageID    string
	Number       uint64 // increases with each revision of a message, also after a restart
	Text         string
	Final        bool // no further revision follows
	Buttons      []Button
}

// Revised is the outcome of a revision.
type Revised struct {
	Applied bool
	// Stale means that the channel has applied a later revision, or a final one.
	Stale bool
	// RetryAfter is how long the channel asks to wait before the next revision. This one was not applied.
	RetryAfter time.Duration
	// Never means that the message can never be edited.
	Never bool
}

// ErrNotTaken is returned for an upload that must not be repeated.
var ErrNotTaken = errors.New("the channel does not accept it")
