package rest

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/gateway"
)

// cluster are the hosts that share a store.
type cluster struct{ gateway.Cluster }

func (c cluster) register(r *registrar) {
	const subject = "Hosts"
	type named struct {
		Name string `path:"name" maxLength:"63" doc:"Of the host"`
	}
	add(r, Operation{ID: "get-cluster", Method: http.MethodGet, Path: "/cluster", Subject: subject, Least: owner,
		Summary: "The hosts that share the store of this one"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) (gateway.ClusterStatus, error) {
			return c.Cluster.Cluster(ctx)
		})
	act(r, Operation{ID: "drain-host", Method: http.MethodPut, Path: "/cluster/hosts/{name}/drain", Subject: subject, Least: owner,
		Summary: "Have a host end the turns that it has begun, and get no others, until that is undone"},
		func(ctx context.Context, _ gateway.Caller, in *named) error { return c.DrainHost(ctx, in.Name, true) })
	act(r, Operation{ID: "undo-drain", Method: http.MethodDelete, Path: "/cluster/hosts/{name}/drain", Subject: subject, Least: owner,
		Summary: "Let a drained host get work again"},
		func(ctx context.Context, _ gateway.Caller, in *named) error { return c.DrainHost(ctx, in.Name, false) })
	act(r, Operation{ID: "remove-host", Method: http.MethodDelete, Path: "/cluster/hosts/{name}", Subject: subject, Least: owner,
		Summary: "Forget a host that is dead, so that its work is free and it is not listed any more"},
		func(ctx context.Context, _ gateway.Caller, in *named) error { return c.RemoveHost(ctx, in.Name) })
	act(r, Operation{ID: "accept-configuration", Method: http.MethodPost, Path: "/cluster/configuration", Subject: subject, Least: owner,
		Summary: "Make the configuration of this host, with its policies and plugins, that of all hosts; those with another one get no work"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) error { return c.AcceptConfiguration(ctx) })
}
