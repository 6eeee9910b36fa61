package admin

import (
	"context"

	"github.com/flynnhost/flynn/host/access"
	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// Roles returns the roles of a configuration and of the pairings that its store has. A host may be running.
func Roles(ctx context.Context, c *config.Config) (*route.Roles, error) {
	return read(ctx, c, func(r *sqlite.Reader) (*route.Roles, error) {
		rows, err := r.ListPairings(ctx)
		return rolesWith(c, pairing.RolesOf(rows)), err
	})
}

func rolesWith(c *config.Config, p route.Pairings) *route.Roles {
	return route.NewRoles(c.Access, new(access.Proofs).Under(c)).WithClients(c.Clients).With(p)
}
