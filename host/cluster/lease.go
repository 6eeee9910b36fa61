package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// Lease is the right of this host to run something that one host at a time may run, such as the plugin of a channel. It is none of its own:
// it lasts as long as the lease of the host, while the host owns the key.
//
// As long as somebody asks how much of it is left, the host claims the key whenever no other host has it. When nobody has asked for a
// term, whatever was run has long ended, and the host gives the key up. So a host on which a plugin cannot run leaves the channel to the
// others.
type Lease = interface {
	// Left is how long the host surely has it from now on; 0 without it.
	Left() time.Duration
	// Sending is like Left, and does not wait until what a previous owner runs has surely ended.
	Sending() time.Duration
	// Epoch rises whenever the key goes from one host to another.
	Epoch() int64
}

// right is a Lease.
type right struct {
	m   *Member
	key store.OwnerKey

	// Guarded by Member.mu.
	asked   time.Time   // last; zero if nobody has asked since the key was given up
	epoch   int64       // the last in which the host had the key
	refused store.Owner // that had the key when a claim was refused
}

// Lease returns the lease of a channel.
func (m *Member) Lease(channel string) Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := store.ChannelOwner(channel)
	t := m.rights[key]
	if t == nil {
		t = &right{m: m, key: key}
		m.rights[key] = t
	}
	return t
}

// Left implements Lease. It is 0 as long as a previous owner may have some left, and for a host that gets no keys, which gives the key up a
// term later.
func (t *right) Left() time.Duration { return t.ask(false) }

// Sending implements Lease. It is 0 for a host that gets no keys.
func (t *right) Sending() time.Duration { return t.ask(true) }

// ask returns how much is left, beside a previous owner or not.
func (t *right) ask(beside bool) time.Duration {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	now := t.m.cfg.Now()
	if !t.wanted(now) {
		select {
		case t.m.wished <- struct{}{}:
		default:
		}
	}
	t.asked = now
	h := t.m.held[t.key]
	if h == nil || t.m.fenced || t.m.idling.why != "" || now.Before(t.m.from) || !beside && now.Before(h.rest) {
		return 0
	}
	return max(0, t.m.until.Sub(now))
}

// Epoch implements Lease.
func (t *right) Epoch() int64 {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if h := t.m.held[t.key]; h != nil {
		t.epoch = h.epoch
	}
	return t.epoch
}

// wanted reports whether somebody has asked for the lease within a term; Member.mu is held.
func (t *right) wanted(now time.Time) bool {
	return !t.asked.IsZero() && now.Sub(t.asked) <= t.m.cfg.Term
}

// Yield gives up a key unless somebody asks for its lease: this host cannot do the work for it at the moment.
func (m *Member) Yield(ctx context.Context, key store.OwnerKey) error {
	m.mu.Lock()
	t := m.rights[key]
	kept := m.held[key] == nil || t != nil && t.wanted(m.cfg.Now())
	m.mu.Unlock()
	if kept {
		return nil
	}
	return m.Release(ctx, key)
}

// obtain claims and gives up the keys of leases until ctx ends.
func (m *Member) obtain(ctx context.Context) {
	for {
		m.mu.Lock()
		renewed := m.renewed
		m.mu.Unlock()
		claim, give := m.wishes()
		for _, t := range claim {
			m.try(ctx, t)
		}
		for _, key := range give {
			if err := m.Release(ctx, key); err != nil && ctx.Err() == nil && !store.Settled(err) {
				m.cfg.Log.Error("cannot give up what this host does not use", "key", key, "error", err)
			}
		}
		select {
		case <-renewed:
		case <-m.wished:
		case <-ctx.Done():
			return
		}
	}
}

// wishes returns the leases to be claimed, and the keys to be given up.
func (m *Member) wishes() (claim []*right, give []store.OwnerKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.may(nil) != nil {
		return nil, nil
	}
	now := m.cfg.Now()
	for key, t := range m.rights {
		switch h := m.held[key]; {
		case h == nil && t.wanted(now) && m.idling.why == "":
			claim = append(claim, t)
		case !t.wanted(now) && !t.asked.IsZero():
			t.asked = time.Time{}
			if h != nil {
				give = append(give, key)
			}
		}
	}
	return claim, give
}

// try claims the key of a lease, unless the host that was the owner at the last try is so still, and alive.
func (m *Member) try(ctx context.Context, t *right) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Term)
	defer cancel()
	o, err := m.cfg.Owners.Owner(ctx, t.key)
	if err == nil {
		m.mu.Lock()
		pointless := o == t.refused && m.alive[o.Host]
		m.mu.Unlock()
		if pointless {
			return
		}
		_, err = m.hold(ctx, t.key)
	}
	switch {
	case err == nil:
		m.work.Signaled(t.key) // there may be work for it that nobody has found
	case errors.Is(err, store.ErrOwned):
		m.mu.Lock()
		t.refused = o
		m.mu.Unlock()
	case ctx.Err() == nil && !store.Settled(err):
		m.cfg.Log.Error("cannot claim what this host is to run; trying again", "key", t.key, "error", err)
	}
}
