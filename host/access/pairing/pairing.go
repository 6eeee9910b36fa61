// Package pairing lets strangers in: who is not known gets a code, which an owner approves, denies or lets run out.
//
// Start with Desk. A code only says which request is meant. Approving it gives the least role that the configuration names and never
// more than member; raising it is an act of its own, and nothing here makes an owner. Everything is durable before it
// counts, except what takes something away, which counts at once. Who may approve is decided by the callers: the holder of the
// token of the gateway, and owners by configuration in a chat. Who is admitted is decided by channel.Gate and route.Roles.
package pairing

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/access/owners"
	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/internal/clock"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store"
)

// Bounds of pairing.
const (
	Valid   = time.Hour      // a code, and the time between two answers to one sender
	quiet   = 24 * time.Hour // no code for a sender who was denied or whose pairing was revoked
	MaxOpen = 100            // requests of one channel at a time, of those with a verified id and of those without
	maxName = 64             // code points of a sender's name that are kept
)

// Config is what a Desk needs. Only Store is required.
type Config struct {
	Store pairings.Store
	// Role is what an approval gives, by the configuration in force: route.Guest or route.Member.
	Role func() string
	// Outbox sends replies that were committed. Without one they go out when the host starts.
	Outbox Outbox
	// Owners are told of requests, if there are any.
	Owners Owners
	Events *event.Bus // gets Happened; it may be nil
	Now    func() time.Time
	Rand   io.Reader // crypto/rand without one
	Log    *slog.Logger
}

// Outbox sends replies; *channel.Outbox implements it.
type Outbox interface {
	Push(turn string, r message.Reply)
}

// Owners says in which conversations owners are told of a stranger; *owners.Owners implements it.
type Owners interface {
	ToldOfStrangers(ctx context.Context) []owners.Chat
}

// Happened is published for each request, answer and wrong code.
type Happened struct {
	Event  Event
	Sender message.SenderKey
}

// Event is something that happened to a sender.
type Event string

// The events.
const (
	Asked     Event = "asked"
	Told      Event = "told" // owners were told of a request
	Full      Event = "full" // the oldest request of a channel ran out early, to make room for another
	Approved  Event = "approved"
	Denied    Event = "denied"
	Revoked   Event = "revoked"
	Raised    Event = "role_changed"
	WrongCode Event = "wrong_code"
	LockedOut Event = "locked_out"
)

// Desk is where pairings are asked for and decided. One process has one.
type Desk struct {
	cfg Config
	// paired are roles by sender key: a copy of rows for readers, who must not wait for a commit.
	paired atomic.Pointer[Roles]

	mu      sync.Mutex // held over commits, so that rows and the store are the same
	rows    map[message.SenderKey]pairings.Pairing
	guesses map[string]pairings.Guesses
}

// Open reads what is durable.
func Open(ctx context.Context, cfg Config) (*Desk, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Rand = cmp.Or[io.Reader](cfg.Rand, rand.Reader)
	if cfg.Role == nil {
		cfg.Role = func() string { return route.Guest }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	d := &Desk{cfg: cfg, rows: map[message.SenderKey]pairings.Pairing{}, guesses: map[string]pairings.Guesses{}}
	rows, err := cfg.Store.ListPairings(ctx)
	if err != nil {
		return nil, fmt.Errorf("read pairings: %w", err)
	}
	for _, p := range rows {
		d.rows[p.Sender] = p
	}
	guesses, err := cfg.Store.ListGuesses(ctx)
	if err != nil {
		return nil, fmt.Errorf("read wrong codes: %w", err)
	}
	for _, g := range guesses {
		d.guesses[g.Guesser] = g
	}
	d.publish()
	return d, nil
}

// Role implements route.Pairings.
func (d *Desk) Role(senderKey message.SenderKey) (role string, paired bool) {
	return d.paired.Load().Role(senderKey)
}

// publish shows the rows to readers; d.mu is held.
func (d *Desk) publish() {
	roles := RolesOf(slices.Collect(maps.Values(d.rows)))
	d.paired.Store(&roles)
}

// Roles are pairings as they were read at one moment.
type Roles map[message.SenderKey]string

// Role implements route.Pairings.
func (r Roles) Role(senderKey message.SenderKey) (role string, paired bool) {
	role, paired = r[senderKey]
	return role, paired
}

// RolesOf are the roles that rows give.
func RolesOf(rows []pairings.Pairing) Roles {
	roles := Roles{}
	for _, p := range rows {
		if p.State == pairings.Paired {
			roles[p.Sender] = p.Role
		}
	}
	return roles
}

// List returns the requests that are open and the senders who are paired, by sender. Closed requests are left out, as are codes
// that have run out.
func (d *Desk) List() []pairings.Pairing {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.cfg.Now()
	var out []pairings.Pairing
	for _, p := range d.rows {
		if p.State == pairings.Paired || p.State == pairings.Open && valid(p, now) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b pairings.Pairing) int { return cmp.Compare(a.Sender, b.Sender) })
	return out
}

// valid reports whether the code of a request still stands for it.
func valid(p pairings.Pairing, now time.Time) bool { return clock.Within(p.Asked, p.Expires, now) }

// quieted reports whether a sender who is not paired is given no code yet.
func quieted(p pairings.Pairing, now time.Time) bool {
	began := p.Asked
	if p.Decided.After(began) {
		began = p.Decided
	}
	return clock.Within(began, p.Until, now)
}

// put commits a pairing with its replies and shows it; d.mu is held. The end of ctx does not cut the commit short: its fate has to
// be known.
func (d *Desk) put(ctx context.Context, p pairings.Pairing, replies ...message.Reply) error {
	turn := turnOf(p)
	fresh, err := d.cfg.Store.PutPairing(context.WithoutCancel(ctx), p, turn, replies)
	if err != nil {
		return err
	}
	d.rows[p.Sender] = p
	d.publish()
	d.push(turn, fresh)
	return nil
}

// push hands on replies that were committed.
func (d *Desk) push(turn string, replies []message.Reply) {
	if d.cfg.Outbox == nil {
		return
	}
	for _, r := range replies {
		d.cfg.Outbox.Push(turn, r)
	}
}

// turnOf is what the replies of a pairing are filed under.
func turnOf(p pairings.Pairing) string { return "pairing-" + p.ID }

// Prune forgets requests and wrong codes that have no use any more. Those of a host where nobody asks would stay otherwise.
func (d *Desk) Prune(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.cfg.Now()
	return errors.Join(d.prune(ctx, now), d.pruneGuesses(ctx, now))
}

// prune forgets rows that have no use any more, neither to keep a sender quiet nor to count what owners were told; d.mu is held.
func (d *Desk) prune(ctx context.Context, now time.Time) error {
	for sender, p := range d.rows {
		if p.State == pairings.Paired || quieted(p, now) || now.Sub(p.Told) < toldOnce {
			continue
		}
		if err := d.cfg.Store.DropPairing(context.WithoutCancel(ctx), sender); err != nil {
			return err
		}
		delete(d.rows, sender)
	}
	return nil
}

// Errors of decisions, in words for people.
var (
	ErrCode    error = refusal{"no open request has this code; it may have run out", store.ErrNotFound}
	ErrRequest error = refusal{"no open request is called so; it may have run out", store.ErrNotFound}
	ErrDecided error = refusal{"this request has another answer already", store.ErrConflict}
	ErrUnknown error = refusal{"this sender is not paired; flynn access list shows who is", store.ErrNotFound}
	ErrLocked  error = lockedOut{}
	ErrRole          = errors.New("a paired sender can be guest or member; owners stand in flynn.toml")
)

// refusal is an error of a kind that others know, in words of its own.
type refusal struct {
	text string
	kind error
}

func (r refusal) Error() string { return r.text }
func (r refusal) Unwrap() error { return r.kind }

type lockedOut struct{}

func (lockedOut) Error() string { return "too many wrong codes: none is taken from here for an hour" }

// LockedOut tells the gateway what kind of error it is.
func (lockedOut) LockedOut() bool { return true }
