package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
)

// channels adds, changes and removes channels.
type channels struct{ gateway.Channels }

// proofTimeout is longer than a plugin in a clone takes to be built, and its platform to answer.
const proofTimeout = 11 * time.Minute

func (c channels) register(r *registrar) {
	const subject = "Channels"
	add(r, Operation{ID: "list-channels", Method: http.MethodGet, Path: "/channels", Subject: subject, Least: owner,
		Summary: "Every channel of the configuration with its state"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.Channel, error) {
			return orEmpty(c.Channels.Channels(ctx))
		})
	add(r, Operation{ID: "list-channel-kinds", Method: http.MethodGet, Path: "/channels/kinds", Subject: subject, Least: owner,
		Summary: "The plugins that a channel can use, with what to ask for"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.ChannelKind, error) {
			return orEmpty(c.ChannelKinds(ctx))
		})
	type adding struct{ Body gateway.NewChannel }
	add(r, Operation{ID: "prove-channel", Method: http.MethodPost, Path: "/channels/prove", Subject: subject, Least: owner, Timeout: proofTimeout,
		Body: 1 << 20, Summary: "Have the platform confirm the account of a channel before it is added"},
		func(ctx context.Context, _ gateway.Caller, in *adding) (gateway.ChannelAccount, error) {
			return c.ProveChannel(ctx, in.Body)
		})
	add(r, Operation{ID: "add-channel", Method: http.MethodPost, Path: "/channels", Subject: subject, Least: owner,
		Timeout: proofTimeout, Status: http.StatusCreated,
		Body: 1 << 20, Summary: "Prove a channel, store its secrets, and add it to the configuration"},
		func(ctx context.Context, by gateway.Caller, in *adding) (gateway.ChannelAccount, error) {
			return c.AddChannel(ctx, in.Body, string(by.Sender))
		})
	type changing struct {
		ByName
		Body gateway.ChannelChange
	}
	act(r, Operation{ID: "change-channel", Method: http.MethodPatch, Path: "/channels/{name}", Subject: subject, Least: owner, Timeout: reloadTimeout,
		Summary: "Enable or disable a channel, or change its settings"},
		func(ctx context.Context, by gateway.Caller, in *changing) error {
			return c.ChangeChannel(ctx, in.Name, in.Body, string(by.Sender))
		})
	act(r, Operation{ID: "remove-channel", Method: http.MethodDelete, Path: "/channels/{name}", Subject: subject, Least: owner, Timeout: reloadTimeout,
		Summary: "Remove a channel with its secrets and the rules about its senders; its messages stay"},
		func(ctx context.Context, by gateway.Caller, in *ByName) error {
			return c.RemoveChannel(ctx, in.Name, string(by.Sender))
		})
}
