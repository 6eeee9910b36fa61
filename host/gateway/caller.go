package gateway

import (
	"context"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
)

// Caller is who sends a request to the API.
type Caller struct {
	// Sender is the person. The holder of this machine's token is owner on the web page.
	Sender message.SenderKey
	// Role is route.Owner, route.Member or route.Guest, as of the request.
	Role string
	// SignIn is the id of the sign-in whose token the request carries; it is empty for this machine's token.
	SignIn string
}

// Owner reports whether the caller may do everything.
func (c Caller) Owner() bool { return c.Role == route.Owner }

// May reports whether the caller has a role or one above it. Everybody has the empty role.
func (c Caller) May(least string) bool {
	rank := map[string]int{"": 0, route.Guest: 1, route.Member: 2, route.Owner: 3}
	have, known := rank[c.Role]
	need, asked := rank[least]
	return known && asked && have >= need
}

// Writes reports whether a conversation is one that the caller can write to: any of this machine's with this machine's token, and his own
// at the console for a person who is signed in, whatever his role. So nobody speaks as somebody else.
func (c Caller) Writes(channel, conversation string) bool {
	if c.SignIn == "" {
		return c.Owner() && localFrontend(channel)
	}
	owner, ok := message.ConsoleOwner(conversation)
	return channel == ChannelConsole && ok && owner == c.Sender && c.May(route.Guest)
}

// Own returns the name of a conversation of the caller's own: on the web page with this machine's token, and at the console otherwise.
func (c Caller) Own(name string) ConversationName {
	if c.SignIn == "" {
		return ConversationName{Channel: ChannelWeb, ID: name}
	}
	return ConversationName{Channel: ChannelConsole, ID: message.ConsoleConversation(c.Sender, name)}
}

// holder is the caller that this machine's token stands for.
var holder = Caller{Sender: message.NewSenderKey(ChannelWeb, owner), Role: route.Owner}

type callerKey struct{}

type againKey struct{}

// WithCaller returns a context for the requests of a caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of a request. The zero Caller, which may do nothing, is that of a context without one.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// withAgain adds a function that returns the caller as of now; ok is false once he is signed out or not admitted any more.
func withAgain(ctx context.Context, again func() (Caller, bool)) context.Context {
	return context.WithValue(ctx, againKey{}, again)
}

// Lasts reports whether the caller of a request still is who he was when it began. Answers that take long ask again before each part.
func Lasts(ctx context.Context) bool {
	again, ok := ctx.Value(againKey{}).(func() (Caller, bool))
	if !ok {
		return true
	}
	now, ok := again()
	return ok && now == CallerOf(ctx)
}
