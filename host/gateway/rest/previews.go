package rest

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/gateway"
)

// previews shows ports of programs in sandboxes to people.
type previews struct{ gateway.Previews }

func (p previews) register(r *registrar) {
	const subject = "Previews"
	type ofScope struct {
		Scope string `query:"scope" maxLength:"1024" doc:"Of one conversation only, such as web:main; empty is all"`
	}
	add(r, Operation{ID: "list-ports", Method: http.MethodGet, Path: "/ports", Subject: subject, Least: guest,
		Summary: "What programs in live sandboxes listen on; an owner sees all, others those of their own conversations"},
		func(ctx context.Context, by gateway.Caller, in *ofScope) ([]gateway.SandboxPorts, error) {
			return orEmpty(p.Ports(ctx, in.Scope, by))
		})
	add(r, Operation{ID: "list-previews", Method: http.MethodGet, Path: "/previews", Subject: subject, Least: guest,
		Summary: "The open previews, latest first; an owner sees all, others their own"},
		func(ctx context.Context, by gateway.Caller, _ *struct{}) ([]gateway.Preview, error) {
			return orEmpty(p.Previews.Previews(ctx, by))
		})
	type start struct{ Body gateway.NewPreview }
	add(r, Operation{ID: "open-preview", Method: http.MethodPost, Path: "/previews", Subject: subject, Least: guest, Status: http.StatusCreated, Secret: true,
		Timeout: askingTimeout, Summary: "Show a port of a program in a live sandbox, at an origin of its own"},
		func(ctx context.Context, by gateway.Caller, in *start) (gateway.PreviewLink, error) {
			return p.OpenPreview(ctx, in.Body, by)
		})
	add(r, Operation{ID: "link-preview", Method: http.MethodPost, Path: "/previews/{id}/link", Subject: subject, Least: guest, Secret: true,
		Summary: "Another link of an open preview"},
		func(ctx context.Context, by gateway.Caller, in *ByID) (gateway.PreviewLink, error) {
			return p.LinkPreview(ctx, in.ID, by)
		})
	act(r, Operation{ID: "close-preview", Method: http.MethodDelete, Path: "/previews/{id}", Subject: subject, Least: guest, Summary: "Close a preview at once"},
		func(ctx context.Context, by gateway.Caller, in *ByID) error { return p.ClosePreview(ctx, in.ID, by) })
}
