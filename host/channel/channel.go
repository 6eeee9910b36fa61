// Package channel is the durable edge of Flynn: the inbox side that accepts
// messages of every channel and the outbox side that delivers replies.
//
// Start with Inbox.Accept and Outbox.Run; Live shows what is not ready yet. A message is acknowledged to its channel only after
// it is committed; a reply is committed before it is sent. Plugin processes are the business of package
// plugin, answering that of package agent.
package channel

import (
	"context"
	"io"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Sender is the way to one channel instance. What it can do besides Send is in its Capabilities; a Sender that claims one of them
// implements the interface that goes with it: Reconciler, Drafter, Typist or Uploader.
type Sender interface {
	// Send delivers r or says what it knows. The outcome is always set, and Unknown where it is empty; the error only explains it.
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

// Typist is a Sender with Capabilities.Typing: it can show that an answer is being written, for as long as ttl.
type Typist interface {
	Typing(ctx context.Context, where message.Conversation, on bool, ttl time.Duration) error
}

// Uploader is a Sender with Capabilities.Upload: it takes media ahead of a send.
type Uploader interface {
	// Upload returns the handle of a file. message.ErrNotTaken says that the channel will never take it.
	Upload(ctx context.Context, a message.Attachment, body io.Reader) (handle string, err error)
}

// reconciler returns a Sender that can look up its sends.
func reconciler(s Sender) (Reconciler, bool) {
	r, ok := s.(Reconciler)
	return r, ok && s.Capabilities().Reconcile
}

// drafter returns a Sender that can edit what it sent.
func drafter(s Sender) (Drafter, bool) {
	d, ok := s.(Drafter)
	return d, ok && s.Capabilities().Edit
}

// uploader returns a Sender that can be given a file.
func uploader(s Sender, a message.Attachment) (Uploader, bool) {
	u, ok := s.(Uploader)
	return u, ok && s.Capabilities().Takes(a)
}

// Local is the way to the frontends of this machine. They have shown the reply as an event when it was committed, or find it in the
// history: a committed reply is a delivered one.
type Local struct{}

// Capabilities implements Sender.
func (Local) Capabilities() message.Capabilities { return message.Capabilities{Idempotent: true} }

// Send implements Sender.
func (Local) Send(context.Context, message.Reply) (message.Delivery, error) {
	return message.Delivery{Outcome: message.Sent}, nil
}
