package message

import (
	"errors"
	"time"
)

// Capabilities are what a channel instance can do besides sending text, and its limits, as the manifest of its plugin and its process
// agree.
type Capabilities struct {
	MaxTextRunes       int           // longest text of one message in code points; 0: no known limit
	MaxAttachmentBytes int64         // 0: none are taken
	Edit               bool          // sent messages can be edited
	EditWindow         time.Duration // how long after sending; 0: for ever
	MinEditInterval    time.Duration // least time between two edits of one message
	Typing             bool
	Delete             bool
	React              bool
	Fetch              bool
	Upload             bool
	Resolve            bool
	Reconcile          bool // the channel can look up the outcome of a send
	Idempotent         bool // recognises a repeated key, even after its own restart: a repeated send is harmless
	Exclusive          bool // one connection per credential
	Threads            bool
	Markdown           bool // takes Markdown; otherwise text is sent as it is
	Buttons            bool // shows buttons
	// Senders is what is proved about the ids of senders; of a running instance, under its settings.
	Senders SenderProof
}

// Takes reports whether the channel can be given a file.
func (c Capabilities) Takes(a Attachment) bool { return c.Upload && a.Size <= c.MaxAttachmentBytes }

// Outcome is what became of a send.
type Outcome string

// The outcomes of a send.
const (
	Sent      Outcome = "sent"
	Duplicate Outcome = "duplicate" // the channel had delivered this key before
	NotSent   Outcome = "not_sent"  // surely not delivered; safe to try again
	Unknown   Outcome = "unknown"   // may or may not have been delivered
	Refused   Outcome = "refused"   // surely not delivered, and the platform will never take it
)

// Delivery is what became of a send, as far as its channel knows.
type Delivery struct {
	Outcome     Outcome
	PlatformIDs []string // of the messages that it became
	// RetryAfter is how long the channel asks to wait, with NotSent.
	RetryAfter time.Duration
	// Resume, with NotSent or Unknown, says that the beginning was delivered, as PlatformIDs; the outcome is that of the rest. It
	// goes back in Reply.Resume.
	Resume string
}

// Arrived reports whether the reply is surely at its channel.
func (d Delivery) Arrived() bool { return d.Outcome == Sent || d.Outcome == Duplicate }

// Revision is a new text for a sent message.
type Revision struct {
	Conversation Conversation
	MessageID    string
	Number       uint64 // rises with each revision of a message, over restarts as well
	Text         string
	Final        bool // no further revision follows
	Buttons      []Button
}

// Revised is what became of a revision.
type Revised struct {
	Applied bool
	// Stale says that the channel has applied a later revision, or a final one.
	Stale bool
	// RetryAfter is how long the channel asks to wait before the next revision; this one was not applied.
	RetryAfter time.Duration
	// Never says that the message cannot be edited, now or later.
	Never bool
}

// ErrNotTaken is in the error of an upload that is not to be tried again.
var ErrNotTaken = errors.New("the channel does not take it")
