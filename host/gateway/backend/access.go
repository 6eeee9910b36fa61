package backend

import (
	"cmp"
	"context"
	"slices"

	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/access/signin"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
)

// Access are the pairings, with what the configuration says about their senders.
type Access struct {
	Pairings *pairing.Service
	SignIns  *signin.Service
	// Roles returns the roles of the configuration in force.
	Roles func() *route.Roles
}

var _ gateway.Access = Access{}

// Access implements gateway.Access: open requests come first.
func (a Access) Access(context.Context) ([]gateway.AccessEntry, error) {
	roles, out := a.Roles(), []gateway.AccessEntry{}
	for _, p := range a.Pairings.List() {
		out = append(out, accessEntry(p, roles))
	}
	slices.SortStableFunc(out, func(a, b gateway.AccessEntry) int { return cmp.Compare(a.State, b.State) })
	return out, nil
}

// DecidePairing implements gateway.Access.
func (a Access) DecidePairing(ctx context.Context, code string, approve bool, by string) (gateway.AccessEntry, error) {
	p, err := a.Pairings.Decide(ctx, code, approve, by)
	if err != nil {
		return gateway.AccessEntry{}, err
	}
	return accessEntry(p, a.Roles()), nil
}

// RevokePairing implements gateway.Access. The person is signed out for good: another pairing later does not bring old sign-ins back.
func (a Access) RevokePairing(ctx context.Context, sender message.SenderKey, by string) error {
	if err := a.Pairings.Revoke(ctx, sender, by); err != nil {
		return err
	}
	return a.SignIns.EndAll(ctx, sender, by)
}

// SetPairingRole implements gateway.Access.
func (a Access) SetPairingRole(ctx context.Context, sender message.SenderKey, role, by string) error {
	return a.Pairings.SetRole(ctx, sender, role, by)
}

// accessEntry describes a pairing. A role of the configuration overrides the pairing's.
func accessEntry(p pairings.Pairing, roles *route.Roles) gateway.AccessEntry {
	e := gateway.AccessEntry{
		Sender: p.Sender, Name: p.Name, State: string(p.State), Role: p.Role, Asked: p.Asked, By: p.By, Decided: p.Decided,
	}
	if p.State == pairings.Open {
		e.Code, e.Expires = pairing.ShowCode(p.Code), p.Expires
	}
	channel := p.Sender.Channel()
	e.Identity = roles.Identity(channel, p.Sender)
	switch role := roles.Of(channel, p.Sender); {
	case roles.Blocked(channel, p.Sender):
		e.Configured = "blocked"
	case role != p.Role && p.State == pairings.Paired, role != route.Guest && p.State == pairings.Open:
		e.Configured = role
	}
	return e
}
