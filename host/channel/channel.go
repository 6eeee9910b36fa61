// Package channel is the durable edge of Flynn: the inbox accepts the messages of every channel, and the outbox delivers replies.
//
// Start with Inbox.Accept and Outbox.Run; Gate decides which messages are answered, and Live shows an answer while it is written. A message
// is acknowledged to its channel only after it is committed; a reply is committed before it is sent.
//
// The parts below it: plugged connects channel plugins to the inbox and the outbox, attachments fetches and stores files, command
// handles chat commands, and notice writes the host's own messages. Package plugin runs the processes of plugins, and package agent
// answers messages.
package channel

import (
	"context"
	"io"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Sender sends over one channel instance. A Sender with one of the Capabilities implements the interface for it: Reconciler, Drafter,
// Typist or Uploader.
type Sender interface {
	// Send delivers r. An empty outcome means Unknown; the error only explains the outcome.
	Send(ctx context.Context, r message.Reply) (message.Delivery, error)
	Capabilities() message.Capabilities
}

// Reconciler is a Sender with Capabilities.Reconcile: it can look up the outcome of a send.
type Reconciler interface {
	Reconcile(ctx context.Context, r message.Reply) (message.Delivery, error)
}

// Drafter is a Sender with Capabilities.Edit: it can show a message before it is complete. Delete needs Capabilities.Delete as well.
type Drafter interface {
	// SendDraft is Send for a first text that edits will complete.
	SendDraft(ctx context.Context, r message.Reply) (message.Delivery, error)
	// Edit replaces the text of a message. The error only explains what message.Revised says.
	Edit(ctx context.Context, r message.Revision) (message.Revised, error)
	Delete(ctx context.Context, where message.Conversation, id string) error
}

// Typist is a Sender with Capabilities.Typing: it can show for ttl that an answer is being written.
type Typist interface {
	Typing(ctx context.Context, where message.Conversation, on bool, ttl time.Duration) error
}

// Uploader is a Sender with Capabilities.Upload: it accepts files before the message.
type Uploader interface {
	// Upload returns the handle of a file: message.ErrNotTaken if the channel will never accept it.
	Upload(ctx context.Context, a message.Attachment, body io.Reader) (handle string, err error)
}

// reconciler returns s if it can look up its sends.
func reconciler(s Sender) (Reconciler, bool) {
	r, ok := s.(Reconciler)
	return r, ok && s.Capabilities().Reconcile
}

// drafter returns s if it can edit its messages.
func drafter(s Sender) (Drafter, bool) {
	d, ok := s.(Drafter)
	return d, ok && s.Capabilities().Edit
}

// uploader returns s if it accepts the file.
func uploader(s Sender, a message.Attachment) (Uploader, bool) {
	u, ok := s.(Uploader)
	return u, ok && s.Capabilities().Takes(a)
}

// Local is the Sender of the frontends of this machine. They get a reply as an event when it is committed, or find it in the history: a
// committed reply is delivered.
type Local struct{}

// Capabilities implements Sender.
func (Local) Capabilities() message.Capabilities { return message.Capabilities{Idempotent: true} }

// Send implements Sender.
func (Local) Send(context.Context, message.Reply) (message.Delivery, error) {
	return message.Delivery{Outcome: message.Sent}, nil
}
