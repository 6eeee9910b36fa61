package channel

import "context"

// Channel connects one instance to its platform.
type Channel interface {
	// Describe says what the plugin is. It must agree with plugin.toml, touch nothing, and return at once.
	Describe() Description
	// Configure takes the settings and checks them without changing anything on the platform. FieldErrors say
	// that the settings are wrong; any other error that the check could not be made, and the host tries again.
	Configure(ctx context.Context, c Config) error
	// Run connects and delivers events until ctx ends. It reconnects by itself. An error, or a return before ctx
	// ends, ends the process; the host starts another after a pause.
	Run(ctx context.Context, in Inbox) error
	// Send delivers one message. Its deadline is in ctx. Set Sent.Outcome along with an error where the
	// outcome is known; an error alone means OutcomeUnknown.
	Send(ctx context.Context, s Send) (Sent, error)
}

// Editor is a Channel that can change the messages it sent. An error with the gRPC status NOT_FOUND, FAILED_PRECONDITION or
// PERMISSION_DENIED means that this message can never be edited; after any other the host tries again for some minutes.
type Editor interface {
	Edit(ctx context.Context, e Edit) (Edited, error)
}

// Deleter is a Channel that can remove the messages it sent.
type Deleter interface {
	Delete(ctx context.Context, c Conversation, messageID string) error
}

// Reacter is a Channel with reactions.
type Reacter interface {
	React(ctx context.Context, r Reaction) error
}

// Typer is a Channel that can show that Flynn is typing. The host repeats the call; do not loop.
type Typer interface {
	Typing(ctx context.Context, t Typing) error
}

// Resolver is a Channel that can find conversations by what a person would type, best first.
type Resolver interface {
	Resolve(ctx context.Context, query string) ([]Target, error)
}

// Reconciler is a Channel that can find out what became of a send whose outcome is unknown: OutcomeSent,
// OutcomeNotSent, or OutcomeUnknown.
type Reconciler interface {
	Reconcile(ctx context.Context, r Reconcile) (Sent, error)
}

// Fetcher is a Channel that can read the bytes of an attachment. The package closes Media.Body; ctx ends after that, or after five minutes.
type Fetcher interface {
	Fetch(ctx context.Context, handle string) (Media, error)
}

// Uploader is a Channel that takes media ahead of a send and returns a handle for Send.Attachments. Media.Body is
// valid until Upload returns, and ctx for five minutes. Where a platform takes files only along with a message, embed HostMedia.
type Uploader interface {
	Upload(ctx context.Context, m Media) (handle string, err error)
}

// Inbox takes events over to the host. Its methods may be called from many goroutines.
type Inbox interface {
	// Deliver hands over one event and returns when the host has it on disk. It blocks while the host is busy. An error
	// means that it was not taken over: ctx or the plugin is ending, or the event is malformed (ErrMalformed).
	Deliver(ctx context.Context, e Event) error
	// DeliverAsync does the same and returns as soon as the host gave room for the event; done is called once, in order of
	// delivery, and must not block or deliver. When DeliverAsync returns an error, done is not called, and the event has to come again.
	// Settled reads the error that done gets.
	DeliverAsync(ctx context.Context, e Event, done func(error)) error
	// Status shows people the state of the connection. It is StateConnecting until the first call.
	Status(s State, text string)
	// LoginCode asks a person to scan code with a device. The host shows it to the operator as a QR code until the next Status or
	// LoginCode, and never logs it.
	LoginCode(code, text string)
}
