package channel

import "context"

// Channel connects one instance to its platform.
type Channel interface {
	// Describe describes the plugin. It must agree with plugin.toml, have no side effects, and return at once.
	Describe() Description
	// Configure receives the settings and checks them without changing anything on the platform. FieldErrors mean that the settings are
	// wrong; any other error means that the check failed, and the host tries again.
	Configure(ctx context.Context, c Config) error
	// Run connects and delivers events until ctx ends. It reconnects by itself. An error, or a return before ctx
	// ends, ends the process; the host starts another after a pause. It is called again after ErrLeaseExpired has ended ctx. With
	// Capabilities.SendsApart, calls can come before Run, and between two calls of Run.
	Run(ctx context.Context, in Inbox) error
	// Send delivers one message. ctx has its deadline. If the outcome of a failed send is known, set Sent.Outcome along with the error; an
	// error alone means OutcomeUnknown.
	Send(ctx context.Context, s Send) (Sent, error)
}

// Editor is a Channel that can change messages that it has sent. An error with the gRPC status NOT_FOUND, FAILED_PRECONDITION or
// PERMISSION_DENIED means that the message can never be edited; after any other error the host tries again for some minutes.
type Editor interface {
	Edit(ctx context.Context, e Edit) (Edited, error)
}

// Deleter is a Channel that can remove messages that it has sent.
type Deleter interface {
	Delete(ctx context.Context, c Conversation, messageID string) error
}

// Reacter is a Channel that supports reactions.
type Reacter interface {
	React(ctx context.Context, r Reaction) error
}

// Typer is a Channel that can show that Flynn is typing. The host repeats the call; do not loop.
type Typer interface {
	Typing(ctx context.Context, t Typing) error
}

// Resolver is a Channel that can find conversations by the names that people type, best match first.
type Resolver interface {
	Resolve(ctx context.Context, query string) ([]Target, error)
}

// Reconciler is a Channel that can determine the outcome of an earlier send: OutcomeSent, OutcomeNotSent, or OutcomeUnknown.
type Reconciler interface {
	Reconcile(ctx context.Context, r Reconcile) (Sent, error)
}

// Fetcher is a Channel that can read the content of an attachment. The package closes Media.Body; ctx ends after that, or after five
// minutes.
type Fetcher interface {
	Fetch(ctx context.Context, handle string) (Media, error)
}

// Uploader is a Channel that accepts media before a send and returns a handle for Send.Attachments. Media.Body is valid until Upload
// returns, and ctx for five minutes. If the platform accepts files only together with a message, embed HostMedia.
type Uploader interface {
	Upload(ctx context.Context, m Media) (handle string, err error)
}

// Inbox passes events to the host. Its methods may be called from many goroutines.
type Inbox interface {
	// Deliver passes one event to the host and returns when the host has stored it. It blocks while the host is busy. An error means that
	// the host has not stored it: ctx or the plugin is ending, or the event is malformed (ErrMalformed).
	Deliver(ctx context.Context, e Event) error
	// DeliverAsync does the same but returns as soon as the host has room for the event. done is called once, in order of delivery, and
	// must not block or deliver; see Settled for its error. If DeliverAsync returns an error, done is not called, and the event has to be
	// delivered again.
	DeliverAsync(ctx context.Context, e Event, done func(error)) error
	// Status shows people the state of the connection, which is StateConnecting before the first call.
	Status(s State, text string)
	// LoginCode asks a person to scan code with a device. The host shows it to the operator as a QR code until the next Status or
	// LoginCode, and never logs it.
	LoginCode(code, text string)
}
