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

// May reports whether the caller has a role or one above it.
func (c Caller) May(least string) bool {
	rank := map[string]int{route.Guest: 1, route.Member: 2, route.Owner: 3}
	return rank[c.Role] > 0 && rank[c.Role] >= rank[least]
}

// holder is the caller that this machine's token stands for.
var holder = Caller{Sender: message.NewSenderKey(ChannelWeb, owner), Role: route.Owner}

type callerKey struct{}

// WithCaller returns a context for the requests of a caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of a request. The zero Caller, which may do nothing, is that of a context without one.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
