package rest

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/gateway"
)

// halting is the kill switch.
type halting struct{ gateway.Halter }

func (h halting) register(r *registrar) {
	type reason struct {
		Body struct {
			Reason string `json:"reason,omitempty" maxLength:"500" doc:"Why, for those who find everything halted"`
		}
	}
	act(r, Operation{ID: "halt", Method: http.MethodPut, Path: "/halt", Subject: "Host", Least: owner,
		Summary: "End all answers and programs at once; further messages wait"},
		func(ctx context.Context, by gateway.Caller, in *reason) error {
			return h.Halt(ctx, true, in.Body.Reason, string(by.Sender))
		})
	act(r, Operation{ID: "resume", Method: http.MethodDelete, Path: "/halt", Subject: "Host", Least: owner, Summary: "End the halt"},
		func(ctx context.Context, by gateway.Caller, _ *struct{}) error {
			return h.Halt(ctx, false, "", string(by.Sender))
		})
}
