package cluster

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// drainTime is how long work that has begun may go on once the host gets no keys any more. Then it is ended, and another host goes on with
// it.
const drainTime = 2 * time.Minute

// idling is that the host gets no keys, because it is drained or differs from the others. It goes on with the work that has begun, and gives
// each key up when the work for it has ended.
type idling struct {
	why   store.Idle
	since time.Time
	begun chan struct{}       // closed as long as the host gets none
	ended map[*hold]time.Time // what was lost because its work took too long, and when
}

func newIdling() idling { return idling{begun: make(chan struct{}), ended: map[*hold]time.Time{}} }

var nextStep = map[store.Idle]string{
	store.IdleDrained: "let it work again with flynn cluster drain --undo",
	store.IdleDiffers: "flynn status says what it lacks; give it that and the configuration of the others, or make its own those of all with flynn cluster accept",
}

// Tell sets what the host says of itself from the next renewal on.
func (m *Member) Tell(r Runs) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cfg.Runs == r {
		return
	}
	m.cfg.Runs = r
	select {
	case m.wanted <- struct{}{}: // at once
	default:
	}
}

// Idle says why the host gets no keys; it is empty if it gets them.
func (m *Member) Idle() store.Idle {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.idling.why
}

// told takes what the store says, and reports whether the host gets keys again; m.mu is held.
func (m *Member) told(why store.Idle) (again bool) {
	i := &m.idling
	if why == i.why {
		return false
	}
	switch {
	case why == "":
		i.begun = make(chan struct{})
		m.cfg.Log.Info("this host gets work again")
	case i.why == "":
		i.since = m.cfg.Now()
		close(i.begun)
	}
	if i.why = why; why != "" {
		m.cfg.Log.Warn("this host gets no work", "reason", why, "hint", nextStep[why])
	}
	return why == ""
}

// uses notes that work for a key begins, unless there is none and the key is to be given up.
func (m *Member) uses(h *hold) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.idling.why != "" && (h.users == 0 || m.passesOn(h)) {
		return store.ErrOwned
	}
	h.users++
	return nil
}

// passesOn reports whether nothing new is sent over a channel, since replies of other hosts would keep it here for as long as they come; m.mu is held.
func (m *Member) passesOn(h *hold) bool {
	_, channel := h.key.Channel()
	return channel && m.cfg.Now().Sub(m.idling.since) >= m.cfg.Term
}

// unused notes that work for a key has ended.
func (m *Member) unused(h *hold) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.users--; m.idling.why != "" {
		m.wake()
	}
}

// rest gives up keys while the host gets none, until ctx ends.
func (m *Member) rest(ctx context.Context) {
	for {
		spare, changed := m.spare()
		for _, h := range spare {
			if err := m.giveUp(ctx, h); err != nil && ctx.Err() == nil && !store.Settled(err) {
				m.cfg.Log.Error("cannot give up a key; trying again", "key", h.key, "error", err)
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// spare returns the keys to give up now, and what is closed when there may be more.
//
// A plugin may go on with the lease of a channel for a term, so that channels stay so long. Then what has yet to be sent with the lease is left to the
// next host.
func (m *Member) spare() (spare []*hold, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := &m.idling
	now := m.cfg.Now()
	for key, h := range m.held {
		_, channel := key.Channel()
		switch idle := now.Sub(i.since); {
		case i.why == "", channel && idle < m.cfg.Term:
		case h.users == 0:
			spare = append(spare, h)
		case idle >= drainTime, channel && m.leased(key):
			m.drop(key)
			i.ended[h] = now
		}
	}
	for h, since := range i.ended {
		if h.users == 0 || now.Sub(since) >= m.cfg.Term {
			delete(i.ended, h)
			spare = append(spare, h)
		}
	}
	return spare, m.renewed
}

// leased reports whether work for a key needs its lease; m.mu is held.
func (m *Member) leased(key store.OwnerKey) bool {
	t := m.rights[key]
	return t != nil && !t.asked.IsZero()
}

// giveUp gives up a key unless its work has begun again.
func (m *Member) giveUp(ctx context.Context, h *hold) error {
	m.mu.Lock()
	used := m.held[h.key] == h && h.users > 0
	m.mu.Unlock()
	if used {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Term)
	defer cancel()
	return m.release(ctx, h)
}

// release drops a key and gives it up in the store. A claim that the store has answered before does not count.
func (m *Member) release(ctx context.Context, h *hold) error {
	m.mu.Lock()
	if m.held[h.key] == h {
		m.drop(h.key)
	}
	m.mu.Unlock()
	err := m.cfg.Owners.Release(ctx, h.key)
	m.mu.Lock()
	m.lost(h.key, h.epoch+1)
	m.mu.Unlock()
	return err
}
