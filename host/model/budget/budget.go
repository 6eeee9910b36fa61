// Package budget keeps what model calls may use in a day, for each sender, for each agent and for the host.
//
// Start with Ledger.Reserve: the most that a call can cost is reserved in all three accounts under one lock before it is made,
// and Reservation.Settle puts what it did cost in its place. So calls that run side by side cannot spend the same room twice. What
// a day has cost is read from the store once; the package writes nothing, as who makes a call commits its cost together with what
// came of it. It knows no models and no prices.
package budget

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/model/usage"
)

// Amount is of tokens, and of money in billionths of a US dollar.
type Amount struct {
	Tokens int64
	Cost   int64
}

func (a *Amount) add(b Amount)  { a.Tokens += b.Tokens; a.Cost += b.Cost }
func (a *Amount) take(b Amount) { a.Tokens -= b.Tokens; a.Cost -= b.Cost }

// Level is whose budget it is.
type Level string

// The levels.
const (
	Sender Level = "sender"
	Agent  Level = "agent"
	Host   Level = "host"
)

// Limits are what may be used in a day at each level; 0 is no limit.
type Limits struct {
	Sender, Agent, Host Amount
}

// account is a budget's holder.
type account struct {
	level Level
	name  string // "" for the host
}

// Sums reads what was used; store.Store implements it.
type Sums interface {
	SumUsage(ctx context.Context, by usage.Key, f usage.Filter) ([]usage.Sum, error)
}

// Config is what a Ledger needs.
type Config struct {
	Store Sums
	// Zone says when a day begins, until SetZone. time.Local
	Zone *time.Location
	Now  func() time.Time
}

// Ledger has the accounts of the present day. It is safe for concurrent use.
type Ledger struct {
	cfg Config

	mu      sync.Mutex
	zone    *time.Location
	today   *day
	settled chan struct{} // closed when a reservation ends
}

// day is one day's accounts, guarded by the ledger's lock.
type day struct {
	name       string // "2026-11-21"
	zone       *time.Location
	start, end time.Time
	used, held map[account]Amount
}

// New returns a ledger. It reads nothing yet.
func New(cfg Config) *Ledger {
	if cfg.Zone == nil {
		cfg.Zone = time.Local
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Ledger{cfg: cfg, zone: cfg.Zone, settled: make(chan struct{})}
}

// SetZone changes when a day begins. It counts from the next claim on; calls under way are charged to the day that it is then, and what
// has been used and is not in the store yet is counted there as well.
func (l *Ledger) SetZone(zone *time.Location) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.zone = zone
}

// loadTimeout bounds the reading of a day, during which all calls wait.
const loadTimeout = 10 * time.Second

// current returns the accounts of the day that it is.
func (l *Ledger) current(ctx context.Context) (*day, error) {
	now := l.cfg.Now().In(l.zone)
	before := l.today
	if before != nil && before.zone.String() == l.zone.String() && before.has(now) {
		return before, nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	moved := before != nil && before.zone.String() != l.zone.String() && before.has(now)
	var unwritten map[account]Amount
	if moved {
		kept, err := l.sums(ctx, before.start, before.end)
		if err != nil {
			return nil, err
		}
		unwritten = before.beyond(kept)
	}
	y, m, n := now.Date()
	d := &day{
		name: now.Format(time.DateOnly), zone: l.zone,
		start: time.Date(y, m, n, 0, 0, 0, 0, l.zone), end: time.Date(y, m, n+1, 0, 0, 0, 0, l.zone), held: map[account]Amount{},
	}
	var err error
	if d.used, err = l.sums(ctx, d.start, d.end); err != nil {
		return nil, err
	}
	if moved { // the same day in another zone: calls under way go on in it
		for a, v := range unwritten {
			change(d.used, a, (*Amount).add, v)
		}
		before.name, before.zone, before.start, before.end, before.used = d.name, d.zone, d.start, d.end, d.used
		return before, nil
	}
	l.today = d
	return d, nil
}

// has reports whether a moment is of the day.
func (d *day) has(t time.Time) bool { return !t.Before(d.start) && t.Before(d.end) }

// beyond is what was used and is not among what the store has. It is read before anything else, so that what is written meanwhile counts
// twice rather than not at all.
func (d *day) beyond(kept map[account]Amount) map[account]Amount {
	out := map[account]Amount{}
	for a, v := range d.used {
		v.take(kept[a])
		out[a] = Amount{Tokens: max(v.Tokens, 0), Cost: max(v.Cost, 0)}
	}
	return out
}

// sums reads what a span of time has cost.
func (l *Ledger) sums(ctx context.Context, start, end time.Time) (map[account]Amount, error) {
	used := map[account]Amount{}
	for level, key := range map[Level]usage.Key{Sender: usage.BySender, Agent: usage.ByAgent, Host: usage.All} {
		sums, err := l.cfg.Store.SumUsage(ctx, key, usage.Filter{Since: start, Until: end, Limit: maxAccounts})
		if err != nil {
			return nil, fmt.Errorf("read what this day has cost: %w", err)
		}
		for _, s := range sums {
			used[account{level, s.Key}] = Amount{Tokens: s.Tokens(), Cost: s.Cost}
		}
	}
	return used, nil
}

// maxAccounts is more than there are.
const maxAccounts = 1 << 30

// Claim asks for room.
type Claim struct {
	Sender, Agent string
	Limits        Limits
	Worst         Amount
}

// accounts are those that a claim is about, with their limits.
func (c Claim) accounts() [3]struct {
	account
	limit Amount
} {
	return [3]struct {
		account
		limit Amount
	}{{account{Sender, c.Sender}, c.Limits.Sender}, {account{Agent, c.Agent}, c.Limits.Agent}, {account{Host, ""}, c.Limits.Host}}
}

// Reserve takes room in all accounts of a claim. Where there would be enough if calls under way cost nothing it waits for those to
// end; where there is not even then, the error is an *Exceeded.
func (l *Ledger) Reserve(ctx context.Context, c Claim) (*Reservation, error) {
	for {
		r, wait, err := l.try(ctx, c)
		if err != nil || r != nil {
			return r, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try makes one attempt: a reservation, or what to wait for, or an error.
func (l *Ledger) try(ctx context.Context, c Claim) (*Reservation, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, err := l.current(ctx)
	if err != nil {
		return nil, nil, err
	}
	full := false
	for _, a := range c.accounts() {
		used := d.used[a.account]
		if unit, ok := fits(used, c.Worst, a.limit); !ok {
			return nil, nil, &Exceeded{Level: a.level, Name: a.name, Unit: unit, Limit: a.limit, Used: used, Worst: c.Worst, Opens: d.end}
		}
		used.add(d.held[a.account])
		if _, ok := fits(used, c.Worst, a.limit); !ok {
			full = true
		}
	}
	if full {
		return nil, l.settled, nil
	}
	for _, a := range c.accounts() {
		change(d.held, a.account, (*Amount).add, c.Worst)
	}
	return &Reservation{ledger: l, day: d, name: d.name, claim: c}, nil, nil
}

func change(m map[account]Amount, a account, by func(*Amount, Amount), n Amount) {
	v := m[a]
	by(&v, n)
	if v == (Amount{}) {
		delete(m, a)
		return
	}
	m[a] = v
}

// fits reports whether an amount has room beside what is used, and if not in which unit it has none.
func fits(used, worst, limit Amount) (Unit, bool) {
	switch {
	case limit.Tokens > 0 && used.Tokens > limit.Tokens-worst.Tokens:
		return Tokens, false
	case limit.Cost > 0 && used.Cost > limit.Cost-worst.Cost:
		return Dollars, false
	}
	return "", true
}

// Unit is what a budget counts.
type Unit string

// The units.
const (
	Tokens  Unit = "tokens"
	Dollars Unit = "dollars"
)

// Exceeded is the error of a claim for which there is no room today.
type Exceeded struct {
	Level Level
	Name  string
	Unit  Unit
	Limit Amount
	Used  Amount
	Worst Amount    // that the claim asks for
	Opens time.Time // begin of the next day
}

// Never reports whether no day has room for the claim.
func (e *Exceeded) Never() bool {
	_, ok := fits(Amount{}, e.Worst, e.Limit)
	return !ok
}

func (e *Exceeded) Error() string {
	used, limit := any(e.Used.Tokens), any(e.Limit.Tokens)
	if e.Unit == Dollars {
		used, limit = float64(e.Used.Cost)/1e9, float64(e.Limit.Cost)/1e9
	}
	return fmt.Sprintf("daily budget of %s %q has no room for another call: %v of %v %s are used; it opens again at %s",
		e.Level, e.Name, used, limit, e.Unit, e.Opens.Format(time.RFC3339))
}

// Reservation is room for one call.
type Reservation struct {
	ledger *Ledger
	day    *day
	name   string // of the day when it was made
	claim  Claim
	ended  bool
}

// Day is what the call is charged to, "2026-11-21".
func (r *Reservation) Day() string { return r.name }

// Settle charges what a call did cost and gives the rest of its room back. A second call does nothing.
func (r *Reservation) Settle(real Amount) {
	l := r.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	for _, a := range r.claim.accounts() {
		change(r.day.held, a.account, (*Amount).take, r.claim.Worst)
		change(r.day.used, a.account, (*Amount).add, real)
	}
	close(l.settled)
	l.settled = make(chan struct{})
}
