package gatewaytest

import (
	"context"
	"slices"

	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Knock adds a pairing request, or a pairing.
func (b *Backend) Knock(e gateway.AccessEntry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.strangers = append(b.strangers, e)
	b.note(store.People, string(e.Sender), "")
}

// LockOut is the code for which DecidePairing reports a lockout.
const LockOut = "LOCK-LOCK"

type lockedOut struct{}

func (lockedOut) Error() string   { return "too many wrong codes" }
func (lockedOut) LockedOut() bool { return true }

// Access implements gateway.Access.
func (b *Backend) Access(context.Context) ([]gateway.AccessEntry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.strangers), nil
}

// DecidePairing implements gateway.Access.
func (b *Backend) DecidePairing(_ context.Context, code string, approve bool, by string) (gateway.AccessEntry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if code == LockOut {
		return gateway.AccessEntry{}, lockedOut{}
	}
	i := slices.IndexFunc(b.strangers, func(e gateway.AccessEntry) bool { return e.Code == code })
	if i < 0 {
		return gateway.AccessEntry{}, store.ErrNotFound
	}
	e := &b.strangers[i]
	b.note(store.People, string(e.Sender), "")
	e.Code, e.By, e.State = "", by, string(pairings.Denied)
	if approve {
		e.State, e.Role = string(pairings.Paired), "guest"
	}
	return *e, nil
}

// RevokePairing implements gateway.Access.
func (b *Backend) RevokePairing(_ context.Context, sender message.SenderKey, _ string) error {
	return b.changePaired(sender, func(e *gateway.AccessEntry) { e.State = string(pairings.Revoked) })
}

// SetPairingRole implements gateway.Access.
func (b *Backend) SetPairingRole(_ context.Context, sender message.SenderKey, role, _ string) error {
	return b.changePaired(sender, func(e *gateway.AccessEntry) { e.Role = role })
}

func (b *Backend) changePaired(sender message.SenderKey, change func(*gateway.AccessEntry)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.strangers {
		if e := &b.strangers[i]; e.Sender == sender && e.State == string(pairings.Paired) {
			change(e)
			b.note(store.People, string(sender), "")
			return nil
		}
	}
	return store.ErrNotFound
}
