package host

import (
	"context"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/cluster"
	"github.com/flynnhost/flynn/host/store"
)

// members connects the host with those that share its store. Run works through the news that renewals bring, so that no slow read
// delays the next one.
type members struct {
	h    *Host
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	written map[store.OwnerKey]bool // keys for which another host has written
	sweep   bool                    // other keys may be claimed
	control bool                    // something changed that all hosts must learn of
}

var _ cluster.Work = (*members)(nil)

func newMembers(h *Host) *members {
	return &members{h: h, wake: make(chan struct{}, 1), written: map[store.OwnerKey]bool{}}
}

// Lost implements cluster.Work.
func (m *members) Lost(key store.OwnerKey) {
	m.h.runner.Lost(key)
	if name, is := key.Channel(); is {
		m.h.outbox.Lost(name)
	}
}

// Signaled implements cluster.Work.
func (m *members) Signaled(key store.OwnerKey) { m.note(func() { m.written[key] = true }) }

// Vacant implements cluster.Work.
func (m *members) Vacant() { m.note(func() { m.sweep = true }) }

// Controlled implements cluster.Work.
func (m *members) Controlled() { m.note(func() { m.control = true }) }

func (m *members) note(what func()) {
	m.mu.Lock()
	what()
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Run takes up what other hosts have left or written, until ctx ends.
func (m *members) Run(ctx context.Context) error {
	for {
		select {
		case <-m.wake:
		case <-ctx.Done():
			return nil
		}
		m.mu.Lock()
		written, sweep, control := m.written, m.sweep, m.control
		m.written, m.sweep, m.control = map[store.OwnerKey]bool{}, false, false
		m.mu.Unlock()
		if control {
			m.refresh(ctx)
		}
		busy, err := m.look(ctx, written, sweep)
		if err == nil && !busy {
			continue
		}
		if err != nil && ctx.Err() == nil {
			m.h.log.Error("cannot take up the work of other hosts; trying again", "error", err)
		}
		time.AfterFunc(cluster.Every, func() {
			m.note(func() {
				m.sweep = m.sweep || sweep
				for key := range written {
					m.written[key] = m.written[key] || err != nil
				}
			})
		})
	}
}

// look looks for work in the store. busy is true if this host has no room for more.
func (m *members) look(ctx context.Context, written map[store.OwnerKey]bool, sweep bool) (busy bool, err error) {
	var conversations []store.OwnerKey
	for key := range written {
		name, is := key.Channel()
		if !is {
			conversations = append(conversations, key)
		} else if err := m.h.outbox.TakeUp(ctx, name); err != nil {
			return false, err
		}
	}
	if sweep {
		if err := m.h.outbox.Look(ctx, m.h.member.Holds); err != nil {
			return false, err
		}
	}
	looked, err := m.h.runner.Look(ctx, conversations, sweep)
	return !looked, err
}

// refresh reads again what is kept in memory for all conversations.
func (m *members) refresh(ctx context.Context) {
	err := m.h.kill.Refresh(ctx)
	if err == nil {
		err = m.h.pairings.Refresh(ctx)
	}
	if err != nil && ctx.Err() == nil {
		m.h.log.Error("cannot read what another host has changed; trying again", "error", err)
		time.AfterFunc(cluster.Every, m.Controlled)
	}
	m.h.approvals.Wake()
}

// exclusively returns a part of the host that runs on one of the hosts that share the store.
func (h *Host) exclusively(ctx context.Context, key store.OwnerKey, part func(context.Context) error) func() error {
	return func() error { return h.member.Exclusively(ctx, key, part) }
}

// leave gives up everything that the host owns.
func (h *Host) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), cluster.Term)
	defer cancel()
	if err := h.member.Leave(ctx); err != nil {
		h.log.Warn("cannot give up what this host owns; other hosts take it when its lease has expired", "error", err)
	}
}
