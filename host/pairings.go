package host

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/access"
	"github.com/flynnhost/flynn/host/access/owners"
	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// openPairings opens the desk where strangers are let in.
func (h *Host) openPairings(ctx context.Context) (err error) {
	h.owners = owners.New(owners.Config{Store: h.store, Rules: inForce{h}.now, Log: h.log})
	h.pairings, err = pairing.Open(ctx, pairing.Config{
		Store: h.store, Log: h.log, Outbox: h.outbox, Owners: h.owners, Role: inForce{h}.pairRole,
		Observe: func(e pairing.Event, sender string) {
			if h.metrics.pairing(e); e == pairing.Revoked {
				h.runner.StopFor(sender)
			}
		},
	})
	return err
}

// access is what the gateway does about pairings, by the configuration in force.
func (h *Host) access() gateway.Access { return doorman{h.pairings, h.current.Load().Roles} }

// Access implements gateway.Access.
func (b backend) Access(ctx context.Context) ([]gateway.AccessEntry, error) {
	return b.h.access().Access(ctx)
}

// DecidePairing implements gateway.Access.
func (b backend) DecidePairing(ctx context.Context, code string, approve bool, by string) (gateway.AccessEntry, error) {
	return b.h.access().DecidePairing(ctx, code, approve, by)
}

// RevokePairing implements gateway.Access.
func (b backend) RevokePairing(ctx context.Context, sender, by string) error {
	return b.h.access().RevokePairing(ctx, sender, by)
}

// SetPairingRole implements gateway.Access.
func (b backend) SetPairingRole(ctx context.Context, sender, role, by string) error {
	return b.h.access().SetPairingRole(ctx, sender, role, by)
}

// doorman is a desk of pairings as the gateway sees it.
type doorman struct {
	desk  *pairing.Desk
	roles *route.Roles
}

// Access implements gateway.Access.
func (d doorman) Access(context.Context) ([]gateway.AccessEntry, error) {
	return accessEntries(d.desk.List(), d.roles), nil
}

// DecidePairing implements gateway.Access.
func (d doorman) DecidePairing(ctx context.Context, code string, approve bool, by string) (gateway.AccessEntry, error) {
	p, err := d.desk.Decide(ctx, code, approve, by)
	if err != nil {
		return gateway.AccessEntry{}, err
	}
	return accessEntry(p, d.roles), nil
}

// RevokePairing implements gateway.Access.
func (d doorman) RevokePairing(ctx context.Context, sender, by string) error {
	return d.desk.Revoke(ctx, sender, by)
}

// SetPairingRole implements gateway.Access.
func (d doorman) SetPairingRole(ctx context.Context, sender, role, by string) error {
	return d.desk.SetRole(ctx, sender, role, by)
}

// PairingsAtRest opens the pairings of a configuration while no host runs. The caller calls release when it is done. Replies go out
// when a host starts.
func PairingsAtRest(ctx context.Context, c *config.Config) (_ gateway.Access, release func() error, err error) {
	s, err := sqlite.Open(ctx, c.Store.Dir)
	if err != nil {
		return nil, nil, err
	}
	desk, err := pairing.Open(ctx, pairing.Config{Store: s, Role: func() string { return c.Access.PairRole }})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return doorman{desk, route.NewRoles(c.Access, new(access.Proofs).Under(c)).WithClients(c.Clients).With(desk)}, s.Close, nil
}

func accessEntries(rows []store.Pairing, roles *route.Roles) []gateway.AccessEntry {
	out := []gateway.AccessEntry{}
	for _, p := range rows {
		out = append(out, accessEntry(p, roles))
	}
	slices.SortStableFunc(out, func(a, b gateway.AccessEntry) int { // what waits for somebody comes first
		return cmp.Compare(a.State, b.State)
	})
	return out
}

// accessEntry is a pairing as people see it. The configuration has the last word about what it is worth.
func accessEntry(p store.Pairing, roles *route.Roles) gateway.AccessEntry {
	e := gateway.AccessEntry{
		Sender: p.Sender, Name: p.Name, State: string(p.State), Role: p.Role, Asked: p.Asked, By: p.By, Decided: p.Decided,
	}
	if p.State == store.PairingOpen {
		e.Code, e.Expires = pairing.ShowCode(p.Code), p.Expires
	}
	channel, _, _ := strings.Cut(p.Sender, ":")
	e.Identity = roles.Identity(channel, p.Sender)
	switch role := roles.Of(channel, p.Sender); {
	case roles.Blocked(channel, p.Sender):
		e.Configured = "blocked"
	case role != p.Role && p.State == store.PairingPaired, role != route.Guest && p.State == store.PairingOpen:
		e.Configured = role
	}
	return e
}
