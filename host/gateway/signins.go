package gateway

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// SignInPath takes the code of a link to the console. It is the one path of the API that needs no token.
const SignInPath = "/api/v1/sign-in"

// SignIns knows the people who are signed in at the console.
type SignIns interface {
	// Caller returns the person whose token a request carries, with his role as of now; ok is false for another token, and for that of
	// a person who is not admitted any more.
	Caller(token string) (c Caller, ok bool)
	// SignIn uses the code of a link: store.ErrNotFound if it is not good, or an error with LockedOut after too many such codes.
	SignIn(ctx context.Context, code string) (SignedIn, error)
	// SignIns lists the sign-ins of a sender, or of all if sender is empty, latest first.
	SignIns(sender message.SenderKey) []SignIn
	// EndSignIn ends a sign-in at once: store.ErrNotFound if there is none, or, with a sender, if it is another one's.
	EndSignIn(ctx context.Context, id string, sender message.SenderKey, by string) error
}

// SignedIn is the answer to a code.
type SignedIn struct {
	Token  string            `json:"token" doc:"To send as Authorization: Bearer TOKEN"`
	Sender message.SenderKey `json:"sender"`
	Role   string            `json:"role" doc:"owner, member or guest; it may change at any time"`
}

// SignIn is one browser in which a person is signed in.
type SignIn struct {
	ID     string            `json:"id"`
	Sender message.SenderKey `json:"sender"`
	Role   string            `json:"role,omitempty" doc:"As of now; empty for a person who is not admitted any more"`
	Began  time.Time         `json:"began"`
	Used   time.Time         `json:"used" doc:"The last time, to the hour"`
}

// Me is the caller of a request, for the caller.
type Me struct {
	Sender message.SenderKey `json:"sender"`
	Role   string            `json:"role"`
	SignIn string            `json:"sign_in,omitempty" doc:"The id of the sign-in; empty for the token of this machine"`
	// Channel and Prefix name the conversations that the caller can write to.
	Channel string `json:"channel" doc:"The channel to which the caller can write"`
	Prefix  string `json:"prefix" doc:"The ids of the caller's conversations there begin with it"`
}

// Me returns what a caller may know of itself.
func (c Caller) Me() Me {
	m := Me{Sender: c.Sender, Role: c.Role, SignIn: c.SignIn, Channel: ChannelWeb}
	if c.SignIn != "" {
		m.Channel, m.Prefix = ChannelConsole, message.ConsoleConversation(c.Sender, "")
	}
	return m
}
