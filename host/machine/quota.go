package machine

import "context"

// Quota bounds what a machine's session may hold on this host.
type Quota interface {
	// Write refuses bytes that are about to be written to the workspace, where it has no room for them.
	Write(bytes int64) error
	// Process has enter begin a background process, unless there are too many.
	Process(enter func() error) error
}

// noQuota has no bounds.
type noQuota struct{}

func (noQuota) Write(int64) error                { return nil }
func (noQuota) Process(enter func() error) error { return enter() }

type senderKey struct{}

// WithSender returns a context in which a machine is asked for on behalf of a sender.
func WithSender(ctx context.Context, sender string) context.Context {
	return context.WithValue(ctx, senderKey{}, sender)
}

// Sender is on whose behalf a machine is asked for, or "".
func Sender(ctx context.Context) string {
	sender, _ := ctx.Value(senderKey{}).(string)
	return sender
}
