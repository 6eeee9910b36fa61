// Package budget limits the daily usage of models for each sender, for each agent and for the host.
//
// Start with Accounts.Reserve: it reserves the most that a call can cost in all three accounts under one lock, and Reservation.Settle
// replaces that by the real cost. So parallel calls cannot spend the same money twice. The usage of a day is read from the store once, or
// every second if other hosts share the store: what they have spent counts, but not what they have reserved. The package writes nothing,
// since the caller commits the cost of a call together with its answer. It knows no models and no prices.
package budget

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/model/usage"
)

// Amount is an amount of tokens, and of money in billionths of a US dollar.
type Amount struct {
	Tokens int64
	Cost   int64
}

func (a *Amount) add(b Amount)  { a.Tokens += b.Tokens; a.Cost += b.Cost }
func (a *Amount) take(b Amount) { a.Tokens -= b.Tokens; a.Cost -= b.Cost }

// Level is a kind of account.
type Level string

// The levels.
const (
	Sender Level = "sender"
	Agent  Level = "agent"
	Host   Level = "host"
)

// Limits are the daily limits of each level; 0 is no limit.
type Limits struct {
	Sender, Agent, Host Amount
}

// account names the holder of a budget.
type account struct {
	level Level
	name  string // "" for the host
}

// Sums reads the usage so far; store.Store implements it.
type Sums interface {
	SumUsage(ctx context.Context, by usage.Key, f usage.Filter) ([]usage.Sum, error)
}

// Config configures Accounts.
type Config struct {
	Store Sums
	// Zone decides when a day begins, until SetZone. Default: time.Local
	Zone *time.Location
	Now  func() time.Time
	// Shared says that other hosts spend from the same budgets.
	Shared bool
}

// Accounts are the accounts of the current day. They are safe for concurrent use.
type Accounts struct {
	cfg Config

	mu      sync.Mutex
	zone    *time.Location
	today   *day
	settled chan struct{} // closed when a reservation ends
}

// day is the usage of one day, guarded by Accounts.mu.
type day struct {
	name       string // "2026-11-21"
	zone       *time.Location
	start, end time.Time
	used, held map[account]Amount
	read       map[Level]time.Time // when the usage of other hosts was read
}

// New returns the accounts. It reads nothing yet.
func New(cfg Config) *Accounts {
	if cfg.Zone == nil {
		cfg.Zone = time.Local
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Accounts{cfg: cfg, zone: cfg.Zone, settled: make(chan struct{})}
}

// SetZone changes when a day begins, from the next claim on. Calls under way, and usage that the store does not have yet, then count for
// the new day.
func (b *Accounts) SetZone(zone *time.Location) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.zone = zone
}

// loadTimeout bounds the reading of a day: all calls wait meanwhile.
const loadTimeout = 10 * time.Second

// current returns the current day.
func (b *Accounts) current(ctx context.Context) (*day, error) {
	now := b.cfg.Now().In(b.zone)
	before := b.today
	if before != nil && before.zone.String() == b.zone.String() && before.has(now) {
		return before, nil
	}
	all := []Level{Sender, Agent, Host}
	moved := before != nil && before.zone.String() != b.zone.String() && before.has(now)
	var unwritten map[account]Amount
	if moved {
		kept, err := b.sums(ctx, before.start, before.end, all...)
		if err != nil {
			return nil, err
		}
		unwritten = before.beyond(kept)
	}
	y, m, n := now.Date()
	d := &day{
		name: now.Format(time.DateOnly), zone: b.zone,
		start: time.Date(y, m, n, 0, 0, 0, 0, b.zone), end: time.Date(y, m, n+1, 0, 0, 0, 0, b.zone), held: map[account]Amount{},
		read: map[Level]time.Time{},
	}
	var err error
	if d.used, err = b.sums(ctx, d.start, d.end, all...); err != nil {
		return nil, err
	}
	if moved { // the same day in another zone: calls under way go on in it
		for a, v := range unwritten {
			change(d.used, a, (*Amount).add, v)
		}
		before.name, before.zone, before.start, before.end, before.used = d.name, d.zone, d.start, d.end, d.used
		return before, nil
	}
	b.today = d
	return d, nil
}

// has reports whether a moment belongs to the day.
func (d *day) has(t time.Time) bool { return !t.Before(d.start) && t.Before(d.end) }

// beyond returns the usage that the store does not have yet. The caller reads kept first, so that usage written meanwhile counts twice
// rather than not at all.
func (d *day) beyond(kept map[account]Amount) map[account]Amount {
	out := map[account]Amount{}
	for a, v := range d.used {
		v.take(kept[a])
		out[a] = Amount{Tokens: max(v.Tokens, 0), Cost: max(v.Cost, 0)}
	}
	return out
}

// stale is how old the usage of other hosts may be.
const stale = time.Second

// hear reads what all hosts have used at the levels that have a limit. The usage of this host that is not written yet still counts.
func (b *Accounts) hear(ctx context.Context, d *day, l Limits) error {
	if !b.cfg.Shared {
		return nil
	}
	now := b.cfg.Now()
	for level, limit := range map[Level]Amount{Sender: l.Sender, Agent: l.Agent, Host: l.Host} {
		if limit == (Amount{}) || now.Sub(d.read[level]) < stale {
			continue
		}
		kept, err := b.sums(ctx, d.start, d.end, level)
		if err != nil {
			return err
		}
		for a, v := range kept {
			mine := d.used[a]
			d.used[a] = Amount{Tokens: max(mine.Tokens, v.Tokens), Cost: max(mine.Cost, v.Cost)}
		}
		d.read[level] = now
	}
	return nil
}

// sums reads the usage in a span of time.
func (b *Accounts) sums(ctx context.Context, start, end time.Time, levels ...Level) (map[account]Amount, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	used := map[account]Amount{}
	keys := map[Level]usage.Key{Sender: usage.BySender, Agent: usage.ByAgent, Host: usage.All}
	for _, level := range levels {
		key := keys[level]
		sums, err := b.cfg.Store.SumUsage(ctx, key, usage.Filter{Since: start, Until: end, Limit: maxAccounts})
		if err != nil {
			return nil, fmt.Errorf("read the usage of this day: %w", err)
		}
		for _, s := range sums {
			used[account{level, s.Key}] = Amount{Tokens: s.Tokens(), Cost: s.Cost}
		}
	}
	return used, nil
}

// Spent is the usage of a day, calls under way not counted.
type Spent struct {
	Day             string // "2026-11-21"
	Zone            string
	Opens           time.Time // begin of the next day, when all budgets are whole again
	Host            Amount
	Agents, Senders map[string]Amount
}

// Today returns what has been used today.
func (b *Accounts) Today(ctx context.Context) (Spent, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, err := b.current(ctx)
	if err != nil {
		return Spent{}, err
	}
	zone := d.zone.String()
	if d.zone == time.Local {
		zone = d.end.Format("MST") // "Local" says nothing
	}
	limited := Amount{Tokens: 1} // whatever the limits are
	if err := b.hear(ctx, d, Limits{Sender: limited, Agent: limited, Host: limited}); err != nil {
		return Spent{}, err
	}
	s := Spent{Day: d.name, Zone: zone, Opens: d.end, Agents: map[string]Amount{}, Senders: map[string]Amount{}}
	for a, used := range d.used {
		switch a.level {
		case Host:
			s.Host = used
		case Agent:
			s.Agents[a.name] = used
		case Sender:
			s.Senders[a.name] = used
		}
	}
	return s, nil
}

// maxAccounts is more than there are.
const maxAccounts = 1 << 30

// Claim asks for a reservation.
type Claim struct {
	Sender, Agent string
	Limits        Limits
	Worst         Amount
}

// accounts returns the accounts of a claim with their limits.
func (c Claim) accounts() [3]struct {
	account
	limit Amount
} {
	return [3]struct {
		account
		limit Amount
	}{{account{Sender, c.Sender}, c.Limits.Sender}, {account{Agent, c.Agent}, c.Limits.Agent}, {account{Host, ""}, c.Limits.Host}}
}

// Reserve reserves the amount in all accounts of a claim. If only the reservations of other calls leave too little, it waits for those to
// be settled; if the usage itself does, the error is an *Exceeded.
func (b *Accounts) Reserve(ctx context.Context, c Claim) (*Reservation, error) {
	for {
		r, wait, err := b.try(ctx, c)
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

// try returns a reservation, or a channel to wait for, or an error.
func (b *Accounts) try(ctx context.Context, c Claim) (*Reservation, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, err := b.current(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := b.hear(ctx, d, c.Limits); err != nil {
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
		return nil, b.settled, nil
	}
	for _, a := range c.accounts() {
		change(d.held, a.account, (*Amount).add, c.Worst)
	}
	return &Reservation{accounts: b, day: d, name: d.name, claim: c}, nil, nil
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

// fits reports whether an amount fits beside the usage, and if not, in which unit it exceeds the limit.
func fits(used, worst, limit Amount) (Unit, bool) {
	switch {
	case limit.Tokens > 0 && used.Tokens > limit.Tokens-worst.Tokens:
		return Tokens, false
	case limit.Cost > 0 && used.Cost > limit.Cost-worst.Cost:
		return Dollars, false
	}
	return "", true
}

// Unit is a unit of budgets.
type Unit string

// The units.
const (
	Tokens  Unit = "tokens"
	Dollars Unit = "dollars"
)

// Exceeded is the error of a claim that a budget refuses today.
type Exceeded struct {
	Level Level
	Name  string
	Unit  Unit
	Limit Amount
	Used  Amount
	Worst Amount    // that the claim asks for
	Opens time.Time // begin of the next day
}

// Never reports whether the claim exceeds even an unused budget.
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

// Reservation is the reserved cost of one call.
type Reservation struct {
	accounts *Accounts
	day      *day
	name     string // of the day when it was made
	claim    Claim
	ended    bool
}

// Day is the day that the call is charged to, "2026-11-21".
func (r *Reservation) Day() string { return r.name }

// Settle replaces the reservation by the real cost. A second call does nothing.
func (r *Reservation) Settle(real Amount) {
	b := r.accounts
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	for _, one := range r.claim.accounts() {
		change(r.day.held, one.account, (*Amount).take, r.claim.Worst)
		change(r.day.used, one.account, (*Amount).add, real)
	}
	close(b.settled)
	b.settled = make(chan struct{})
}
