package admin

import (
	"context"
	"errors"

	"github.com/flynnhost/flynn/host/access"
	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/access/signin"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store/database"
	"github.com/flynnhost/flynn/host/store/sqlstore"
)

// Roles returns the roles of a configuration, including the requests in its store. A host may be running.
func Roles(ctx context.Context, c *config.Config) (*route.Roles, error) {
	return read(ctx, c, func(r *sqlstore.Reader) (*route.Roles, error) {
		rows, err := r.ListPairings(ctx)
		return rolesWith(c, pairing.RolesOf(rows)), err
	})
}

// Pairings opens the requests of a configuration; call release when done. It fails while a host runs. Replies are sent by the next host.
func Pairings(ctx context.Context, c *config.Config) (_ gateway.Access, release func() error, err error) {
	s, err := database.At(c.Store.Location()).Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	requests, err := pairing.Open(ctx, pairing.Config{Store: s, Role: func() string { return c.Access.PairRole }})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	signIns, err := signin.Open(ctx, signin.Config{Store: s})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	roles := rolesWith(c, requests)
	return backend.Access{Pairings: requests, SignIns: signIns, Roles: func() *route.Roles { return roles }}, s.Close, nil
}

func rolesWith(c *config.Config, p route.Pairings) *route.Roles {
	return route.NewRoles(c.Access, new(access.Proofs).Under(c)).WithClients(c.Clients).With(p)
}
