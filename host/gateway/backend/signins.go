package backend

import (
	"context"

	"github.com/flynnhost/flynn/host/access/signin"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

// SignIns are the people at the console. Their rights are those of their chats, as of each request.
type SignIns struct {
	*signin.Service
	// Admitted returns the role of a sender under the configuration and the pairings in force; ok is false if he would not be answered.
	Admitted func(sender message.SenderKey) (role string, ok bool)
}

var _ gateway.SignIns = SignIns{}

// Caller implements gateway.SignIns.
func (s SignIns) Caller(token string) (gateway.Caller, bool) {
	in, ok := s.Of(token)
	if !ok {
		return gateway.Caller{}, false
	}
	role, ok := s.Admitted(in.Sender)
	return gateway.Caller{Sender: in.Sender, Role: role, SignIn: in.ID}, ok
}

// Again returns a caller with his present role; ok is false if he is signed out or not admitted any more.
func (s SignIns) Again(c gateway.Caller) (now gateway.Caller, ok bool) {
	if c.SignIn == "" { // the token of this machine
		return c, c.Owner()
	}
	role, ok := s.Admitted(c.Sender)
	return gateway.Caller{Sender: c.Sender, Role: role, SignIn: c.SignIn}, ok && s.Lasts(c.SignIn)
}

// SignIn implements gateway.SignIns.
func (s SignIns) SignIn(ctx context.Context, code string) (gateway.SignedIn, error) {
	token, in, err := s.Use(ctx, code)
	if err != nil {
		return gateway.SignedIn{}, err
	}
	role, ok := s.Admitted(in.Sender)
	if !ok {
		_ = s.End(ctx, in.ID, in.Sender, "the admission") // it is good for nothing anyway
		return gateway.SignedIn{}, signin.ErrCode
	}
	return gateway.SignedIn{Token: token, Sender: in.Sender, Role: role}, nil
}

// SignIns implements gateway.SignIns.
func (s SignIns) SignIns(sender message.SenderKey) []gateway.SignIn {
	var out []gateway.SignIn
	for _, in := range s.List(sender) {
		v := gateway.SignIn{ID: in.ID, Sender: in.Sender, Began: in.Began, Used: in.Used}
		if role, ok := s.Admitted(in.Sender); ok {
			v.Role = role
		}
		out = append(out, v)
	}
	return out
}

// EndSignIn implements gateway.SignIns.
func (s SignIns) EndSignIn(ctx context.Context, id string, sender message.SenderKey, by string) error {
	return s.End(ctx, id, sender, by)
}
