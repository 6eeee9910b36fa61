package rest

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

// signIns signs people in and out.
type signIns struct{ gateway.SignIns }

func (s signIns) register(r *registrar) {
	const subject = "Sign-ins"
	add(r, Operation{ID: "get-me", Method: http.MethodGet, Path: "/me", Subject: subject, Least: guest, Summary: "Who the caller is"},
		func(_ context.Context, by gateway.Caller, _ *struct{}) (gateway.Me, error) { return by.Me(), nil })
	if s.SignIns == nil {
		return
	}
	type code struct {
		Body struct {
			Code string `json:"code" minLength:"1" maxLength:"256" doc:"What follows #sign-in= in the link"`
		}
	}
	add(r, Operation{ID: "sign-in", Method: http.MethodPost, Path: "/sign-in", Subject: subject, Least: anybody,
		Summary: "Use a link of the chat command /console, which is good once; needs no token"},
		func(ctx context.Context, _ gateway.Caller, in *code) (gateway.SignedIn, error) {
			return s.SignIn(ctx, in.Body.Code)
		})
	add(r, Operation{ID: "list-sign-ins", Method: http.MethodGet, Path: "/sign-ins", Subject: subject, Least: guest,
		Summary: "Where people are signed in, latest first; an owner sees all, others their own"},
		func(_ context.Context, by gateway.Caller, _ *struct{}) ([]gateway.SignIn, error) {
			return orEmpty(s.SignIns.SignIns(whose(by)), nil)
		})
	act(r, Operation{ID: "end-sign-in", Method: http.MethodDelete, Path: "/sign-ins/{id}", Subject: subject, Least: guest,
		Summary: "Sign out at once; an owner everybody, others themselves"},
		func(ctx context.Context, by gateway.Caller, in *ByID) error {
			return s.EndSignIn(ctx, in.ID, whose(by), string(by.Sender))
		})
}

// whose returns the sender whose things a caller may see; empty for an owner, who may see all.
func whose(by gateway.Caller) message.SenderKey {
	if by.Owner() {
		return ""
	}
	return by.Sender
}
