package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

// sweepEvery is the number of renewals after which Work.Vacant is called even if no host has died.
const sweepEvery = 15

// looks is how often the host looks for signals, and for hosts that are gone, between two renewals.
const looks = 8

// manySignals is how many signals a store returns at most. If there are as many, some may be missing, among them that a key was lost.
const manySignals = 1000

// Run renews the lease until ctx ends, and passes on what it learns. It returns store.ErrFenced if another incarnation has replaced the
// host: then nothing can be written any more, and the host has to be started again.
func (m *Member) Run(ctx context.Context) error {
	if !m.shared {
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var keys sync.WaitGroup
	keys.Go(func() { m.rest(ctx) })
	keys.Go(func() { m.obtain(ctx) })
	defer keys.Wait()
	defer cancel()
	look := time.NewTicker(m.cfg.Every / looks)
	defer look.Stop()
	for {
		next := m.cfg.Now().Add(m.cfg.Every)
		for more := true; more; {
			var err error
			if more, err = m.beat(ctx); errors.Is(err, store.ErrFenced) {
				return err
			} else if err != nil && ctx.Err() == nil {
				m.cfg.Log.Error("cannot renew the host's lease; trying again", "error", err)
			}
		}
		for waiting := true; waiting; {
			select {
			case <-look.C:
			case <-m.wanted:
				waiting = false
				continue
			case <-ctx.Done():
				return nil
			}
			if waiting = m.cfg.Now().Before(next); waiting {
				told, err := m.cfg.Owners.Signaled(ctx)
				waiting = err != nil || !told
			}
		}
	}
}

// beat renews the lease once. more is true if there is more to hear at once.
func (m *Member) beat(ctx context.Context) (more bool, err error) {
	sent := m.cfg.Now()
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Term)
	defer cancel()
	l := m.lease(m.work.Admitted())
	r, err := m.cfg.Owners.Renew(ctx, l)
	n, err := m.hear(sent, l.Reach, r, err)
	m.pass(n)
	return n.more, err
}

// manyCounts bounds the counts that the store has not been told of while it cannot be reached. Then the host admits nothing for long anyway.
const manyCounts = 1000

// lease returns what the host says next, with new counts.
func (m *Member) lease(counts []store.Count) store.Lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts = append(m.counts, counts...)
	m.counts = m.counts[max(0, len(m.counts)-manyCounts):]
	return store.Lease{
		Term: m.cfg.Term, Reach: m.reach, Address: m.cfg.Address, Version: m.cfg.Version, Digests: m.cfg.Digests, Shared: m.cfg.Shared, Revision: m.cfg.Revision,
		Peer: m.cfg.Peer, Fingerprint: m.cfg.Fingerprint, Heard: slices.Clone(m.heard), Counts: slices.Clone(m.counts),
	}
}

// news is what the host learns from a renewal.
type news struct {
	work, stop []store.OwnerKey
	counts     []store.Count
	vacant     bool
	controlled bool
	more       bool
}

// hear takes the answer to a renewal that was sent at a time, with a reach. The time when it was sent counts, because the store may have
// counted the term from then on, and because other hosts count the reach from the end of the connection over which it was sent.
//
// Keys that were lost are dropped before the host may act again, so that nothing is begun for them.
func (m *Member) hear(sent time.Time, reach time.Duration, r store.Renewal, err error) (n news, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if errors.Is(err, store.ErrFenced) {
		m.end()
		return n, fmt.Errorf("this host was replaced: %w", err)
	}
	if err != nil {
		return n, err
	}
	m.heard, m.acted, m.counts = m.heard[:0], m.forget(r.Signals), nil
	for _, s := range r.Signals {
		m.heard = append(m.heard, s.ID)
		if m.acted[s.ID] {
			continue
		}
		m.acted[s.ID] = true
		switch s.Kind {
		case store.SignalLost:
			m.lost(s.Key, s.Epoch)
		case store.SignalWork:
			if !slices.Contains(n.work, s.Key) {
				n.work = append(n.work, s.Key)
			}
		case store.SignalStop:
			n.stop = append(n.stop, s.Key)
		case store.SignalVacant:
			n.vacant = true
		case store.SignalCounted:
			n.counts = append(n.counts, store.Count{Of: string(s.Key), N: s.Epoch})
		}
	}
	if len(r.Signals) >= manySignals {
		n.more = true
		return n, nil
	}
	if m.from.IsZero() {
		m.from = m.cfg.Now().Add(r.Wait + r.Wait/margin)
	}
	lapsed := !m.cfg.Now().Before(m.until) // then a host may have lived and died unseen
	m.until = sent.Add(m.cfg.Term - m.cfg.Term/margin)
	m.near = m.until
	if r.Watched {
		m.near = sent.Add(reach - reach/margin)
		if m.cfg.Now().Sub(sent) > reach/2 { // the store is slow
			m.reach = min(2*reach, m.cfg.Term)
		}
	}
	again := m.told(r.Idle)
	n.vacant = (m.died(r.Alive) || n.vacant || lapsed || again || m.beats%sweepEvery == 0) && r.Idle == ""
	m.beats++
	n.controlled, m.control = m.beats > 1 && r.Control != m.control, r.Control
	m.wake()
	return n, nil
}

// forget returns the signals that were acted on and come again.
func (m *Member) forget(again []store.Signal) map[int64]bool {
	left := map[int64]bool{}
	for _, s := range again {
		if m.acted[s.ID] {
			left[s.ID] = true
		}
	}
	return left
}

// died reports whether a host that was alive is not any more, and remembers those that are.
func (m *Member) died(now []string) bool {
	next := map[string]bool{}
	for _, id := range now {
		next[id] = true
	}
	gone := false
	for id := range maps.Keys(m.alive) {
		gone = gone || !next[id]
	}
	m.alive = next
	return gone
}

// pass passes news on.
func (m *Member) pass(n news) {
	for _, key := range n.work {
		m.work.Signaled(key)
	}
	for _, key := range n.stop {
		m.work.Stopped(key)
	}
	for _, c := range n.counts {
		m.work.Counted(c)
	}
	if n.controlled {
		m.work.Controlled()
	}
	if n.vacant {
		m.work.Vacant()
	}
}
