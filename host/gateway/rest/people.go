package rest

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

// people lets people in, and out.
type people struct {
	gateway.Access
	all gateway.People // may be nil
}

// OfPerson is the path of a person.
type OfPerson struct {
	Sender message.SenderKey `path:"sender" minLength:"1" maxLength:"1024" doc:"instance:platform-id"`
}

func (p people) register(r *registrar) {
	const subject = "People"
	add(r, Operation{ID: "list-people", Method: http.MethodGet, Path: "/people", Subject: subject, Least: owner,
		Summary: "Who asks to be let in, and then who is in"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.AccessEntry, error) {
			return orEmpty(p.Access.Access(ctx))
		})
	type decision struct {
		Body struct {
			Code    string `json:"code" minLength:"1" maxLength:"256" doc:"The code that the person was shown"`
			Approve bool   `json:"approve"`
		}
	}
	add(r, Operation{ID: "decide-pairing", Method: http.MethodPost, Path: "/people/decision", Subject: subject, Least: owner,
		Summary: "Let somebody in by the code, or do not"},
		func(ctx context.Context, by gateway.Caller, in *decision) (gateway.AccessEntry, error) {
			return p.DecidePairing(ctx, in.Body.Code, in.Body.Approve, string(by.Sender))
		})
	type role struct {
		OfPerson
		Body struct {
			Role string `json:"role" enum:"guest,member" doc:"Owners are set in flynn.toml"`
		}
	}
	act(r, Operation{ID: "set-role", Method: http.MethodPatch, Path: "/people/{sender}", Subject: subject, Least: owner,
		Summary: "Make a paired person a guest or a member"},
		func(ctx context.Context, by gateway.Caller, in *role) error {
			return p.SetPairingRole(ctx, in.Sender, in.Body.Role, string(by.Sender))
		})
	act(r, Operation{ID: "revoke-pairing", Method: http.MethodDelete, Path: "/people/{sender}", Subject: subject, Least: owner, Summary: "End a pairing at once"},
		func(ctx context.Context, by gateway.Caller, in *OfPerson) error {
			return p.RevokePairing(ctx, in.Sender, string(by.Sender))
		})
	if p.all != nil {
		persons{p.all}.register(r)
	}
}
