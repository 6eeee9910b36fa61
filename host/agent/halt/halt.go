// Package halt is the kill switch. While it is on, no turn continues and no tool is called.
//
// Start with Switch. Its state is in the store and survives a restart. The package does not decide who may throw the switch: the chat
// commands and the gateway do.
package halt

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
)

// Turns are the turns that the switch stops.
type Turns interface {
	// Halt stops every running turn.
	Halt()
	// Resume wakes the work that waits for the switch.
	Resume()
}

// Switch is the kill switch of a host. It is safe for concurrent use: the agent reads it between steps and before each tool call.
type Switch struct {
	store turnlog.Halts
	log   *slog.Logger
	turns Turns // set once, before the first Set

	mu     sync.Mutex // held during a change
	now    atomic.Pointer[turnlog.Halt]
	thrown atomic.Pointer[chan struct{}]
}

// Open reads the stored state. It fails if the state cannot be read, so that a host never starts in an unknown state.
func Open(ctx context.Context, s turnlog.Halts, log *slog.Logger) (*Switch, error) {
	h, err := s.Halt(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the kill switch: %w", err)
	}
	k := &Switch{store: s, log: log}
	k.now.Store(&h)
	k.announce(h.On)
	return k, nil
}

// Govern sets the turns that the switch stops. It is called once, before anything runs.
func (k *Switch) Govern(t Turns) { k.turns = t }

// State returns the present state.
func (k *Switch) State() turnlog.Halt { return *k.now.Load() }

// Why returns the reason if the switch is on, and "" otherwise.
func (k *Switch) Why() string { return k.now.Load().String() }

// maxReason bounds the recorded reason of a change, in bytes.
const maxReason = 500

// Set turns the switch on or off. The change is committed before it takes effect. If the switch is in the wanted state already, nothing
// changes, not even its reason.
func (k *Switch) Set(ctx context.Context, on bool, reason, by string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now.Load().On == on {
		return nil
	}
	h := turnlog.Halt{On: on, Reason: reason[:min(len(reason), maxReason)], By: by, Since: time.Now().UTC()}
	if err := k.store.SetHalt(ctx, h); err != nil {
		return err
	}
	k.now.Store(&h)
	k.apply(h)
	return nil
}

// Refresh takes over a change that another host has made.
func (k *Switch) Refresh(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	h, err := k.store.Halt(ctx)
	if err != nil {
		return fmt.Errorf("read the kill switch: %w", err)
	}
	before := k.now.Load().On
	if h == *k.now.Load() {
		return nil
	}
	k.now.Store(&h)
	if h.On != before {
		k.apply(h)
	}
	return nil
}

// apply carries out a change; k.mu is held.
func (k *Switch) apply(h turnlog.Halt) {
	k.announce(h.On)
	if h.On {
		k.turns.Halt()
	} else {
		k.turns.Resume()
	}
	k.log.Warn("kill switch", "on", h.On, "by", h.By, "reason", h.Reason)
}

// Thrown returns a channel that is closed once the switch is on.
func (k *Switch) Thrown() <-chan struct{} { return *k.thrown.Load() }

func (k *Switch) announce(on bool) {
	if on {
		if c := k.thrown.Load(); c != nil {
			close(*c)
			return
		}
	}
	c := make(chan struct{})
	if on {
		close(c)
	}
	k.thrown.Store(&c)
}
