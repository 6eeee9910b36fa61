package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
)

// models shows the models and tests them.
type models struct{ gateway.Models }

// testTimeout bounds the test of a model; the server ends a request after 30 seconds.
const testTimeout = 28 * time.Second

func (m models) register(r *registrar) {
	const subject = "Models"
	add(r, Operation{ID: "list-models", Method: http.MethodGet, Path: "/models", Subject: subject, Least: owner,
		Summary: "The models of the tiers, and how they are"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.ModelTier, error) {
			return orEmpty(m.Models.Models(ctx))
		})
	type tier struct {
		Tier string `path:"tier" minLength:"1" maxLength:"64"`
	}
	add(r, Operation{ID: "test-model", Method: http.MethodPost, Path: "/models/{tier}/test", Subject: subject, Least: owner, Timeout: testTimeout,
		Summary: "Have the model of a tier answer one word, and say what that cost"},
		func(ctx context.Context, by gateway.Caller, in *tier) (gateway.ModelTest, error) {
			return m.TestModel(ctx, in.Tier, by.Sender)
		})
}
