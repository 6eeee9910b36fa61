// Package pairing admits strangers: an unknown sender gets a code, and an owner approves or denies it, or lets it expire.
//
// Start with Service. A code only identifies a request. Approving it gives the role that the configuration names, at most member;
// raising the role is a separate action, and nothing here makes an owner. Every change is durable before it takes effect, except a
// revocation, which takes effect at once. The callers decide who may approve: the holder of the gateway's token, and configured owners
// in a chat. channel.Gate and route.Roles decide who is admitted.
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
	Valid   = time.Hour      // validity of a code, and the time between two codes for a sender
	quiet   = 24 * time.Hour // time without a code after a denial or a revocation
	MaxOpen = 100            // requests of one channel at a time, separately for verified and unverified ids
	maxName = 64             // code points that are kept of a sender's name
)

// Config configures a Service. Only Store is required.
type Config struct {
	Store pairings.Store
	// Role returns the role that an approval gives under the configuration in force: route.Guest or route.Member.
	Role func() string
	// Outbox sends committed replies. Without it they are sent when the host starts.
	Outbox Outbox
	// Owners returns the conversations that get notices; nil for none.
	Owners Owners
	Turns  Turns      // nil where no turns run
	Events *event.Bus // receives Happened; may be nil
	Now    func() time.Time
	Rand   io.Reader // nil means crypto/rand
	Log    *slog.Logger
}

// Outbox sends replies; *channel.Outbox implements it.
type Outbox interface {
	Push(turn string, r message.Reply)
}

// Turns ends what runs for a sender whose pairing is revoked; *agent.Runner implements it.
type Turns interface {
	StopFor(sender message.SenderKey)
}

// Owners returns the conversations that get notices about strangers; *owners.Owners implements it.
type Owners interface {
	ToldOfStrangers(ctx context.Context) []owners.Chat
}

// Happened is published for each request, decision and wrong code.
type Happened struct {
	Event  Event
	Sender message.SenderKey
}

// Event is the kind of a Happened.
type Event string

// The events.
const (
	Asked     Event = "asked"
	Told      Event = "told" // owners got a notice of a request
	Full      Event = "full" // the oldest request of a channel ended early, to make room for another
	Approved  Event = "approved"
	Denied    Event = "denied"
	Revoked   Event = "revoked"
	Raised    Event = "role_changed"
	WrongCode Event = "wrong_code"
	LockedOut Event = "locked_out"
)

// Service takes and decides pairing requests. A process has one.
type Service struct {
	cfg Config
	// paired are the roles by sender key, for readers that must not wait for a commit.
	paired atomic.Pointer[Roles]

	mu      sync.Mutex // held over commits, so that rows match the store
	rows    map[message.SenderKey]pairings.Pairing
	guesses map[string]pairings.Guesses
}

// Open loads the stored pairings.
func Open(ctx context.Context, cfg Config) (*Service, error) {
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
	d := &Service{cfg: cfg, rows: map[message.SenderKey]pairings.Pairing{}, guesses: map[string]pairings.Guesses{}}
	if err := d.Refresh(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// Refresh reads the pairings again, which another host may have changed. It ends what runs for those who are not paired any more.
func (d *Service) Refresh(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	rows, err := d.cfg.Store.ListPairings(ctx)
	if err != nil {
		return fmt.Errorf("read pairings: %w", err)
	}
	if err := d.recount(ctx); err != nil {
		return err
	}
	before := d.rows
	d.rows = map[message.SenderKey]pairings.Pairing{}
	for _, p := range rows {
		d.rows[p.Sender] = p
	}
	d.publish()
	for sender, p := range before {
		if p.State == pairings.Paired && d.rows[sender].State != pairings.Paired {
			d.cfg.Turns.StopFor(sender)
		}
	}
	return nil
}

// Role implements route.Pairings.
func (d *Service) Role(senderKey message.SenderKey) (role string, paired bool) {
	return d.paired.Load().Role(senderKey)
}

// publish updates paired from the rows. d.mu is held.
func (d *Service) publish() {
	roles := RolesOf(slices.Collect(maps.Values(d.rows)))
	d.paired.Store(&roles)
}

// Roles are the roles by sender key at one moment.
type Roles map[message.SenderKey]string

// Role implements route.Pairings.
func (r Roles) Role(senderKey message.SenderKey) (role string, paired bool) {
	role, paired = r[senderKey]
	return role, paired
}

// RolesOf returns the roles of paired senders.
func RolesOf(rows []pairings.Pairing) Roles {
	roles := Roles{}
	for _, p := range rows {
		if p.State == pairings.Paired {
			roles[p.Sender] = p.Role
		}
	}
	return roles
}

// List returns the open requests and the paired senders, by sender. It leaves out closed and expired requests.
func (d *Service) List() []pairings.Pairing {
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

// valid reports whether the code of a request is still valid.
func valid(p pairings.Pairing, now time.Time) bool { return clock.Within(p.Asked, p.Expires, now) }

// quieted reports whether an unpaired sender may not get a code yet.
func quieted(p pairings.Pairing, now time.Time) bool {
	began := p.Asked
	if p.Decided.After(began) {
		began = p.Decided
	}
	return clock.Within(began, p.Until, now)
}

// put commits a pairing with its replies. It ignores the cancellation of ctx, because the outcome of the commit must be known. d.mu is
// held.
func (d *Service) put(ctx context.Context, p pairings.Pairing, replies ...message.Reply) error {
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

// push sends committed replies.
func (d *Service) push(turn string, replies []message.Reply) {
	if d.cfg.Outbox == nil {
		return
	}
	for _, r := range replies {
		d.cfg.Outbox.Push(turn, r)
	}
}

// turnOf returns the turn id of a pairing's replies.
func turnOf(p pairings.Pairing) string { return "pairing-" + p.ID }

// Prune deletes requests and wrong codes that are no longer needed, on a host without new requests.
func (d *Service) Prune(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.cfg.Now()
	return errors.Join(d.prune(ctx, now), d.pruneGuesses(ctx, now))
}

// prune deletes rows that are needed neither to keep a sender quiet nor to bound the notices. d.mu is held.
func (d *Service) prune(ctx context.Context, now time.Time) error {
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

// Errors of decisions, with texts for people.
var (
	ErrCode    error = refusal{"there is no open request with this code; it may have expired", store.ErrNotFound}
	ErrRequest error = refusal{"there is no open request with this id; it may have expired", store.ErrNotFound}
	ErrDecided error = refusal{"this request was already answered differently", store.ErrConflict}
	ErrUnknown error = refusal{"this sender is not paired; flynn access list shows who is", store.ErrNotFound}
	ErrLocked  error = lockedOut{}
	ErrRole          = errors.New("a paired sender can be guest or member; owners are listed in flynn.toml")
)

// refusal is an error with its own text that matches another error.
type refusal struct {
	text string
	kind error
}

func (r refusal) Error() string { return r.text }
func (r refusal) Unwrap() error { return r.kind }

type lockedOut struct{}

func (lockedOut) Error() string { return "too many wrong codes: try again in an hour" }

// LockedOut marks the error for the gateway.
func (lockedOut) LockedOut() bool { return true }
